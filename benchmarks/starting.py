"""How long the command line takes to answer, as a ratio to `python -c "import torch"`.

    python -m benchmarks.starting

Processes take turns, each measured by the CPU time it used; the first round is not counted. A command that
needs no tensors must not import torch at all, so its ratio is far below one.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import measured_on
from PIL import Image

IMPORT = ["-c", "import torch"]
PREPARE = """
import sys
import dpw
task = dpw.load_benchmark("mini", order=["signs"], shots=1).tasks[0]
learner = dpw.ContinualCLIP.from_pretrained("mini", "dpw", settings={"training.iterations": 1})
learner.learn(task)
learner.save_pretrained(sys.argv[1])
"""


def commands(model: str, image: str) -> dict[str, list[str]]:
    """What is measured: commands without tensors, refusals, and one prediction."""
    return {
        "methods": ["methods"],
        "tasks": ["tasks", model],
        "a task that is not there": ["forget", model, "nothing"],
        "a method that is not there": ["run", "mini", "--method", "nothing"],
        "a setting that is not there": ["run", "mini", "--set", "nothing=1"],
        "a model that is not there": ["predict", "nothing", image],
        "a folder that is not there": ["learn", "nothing", "--into", "new"],
        "predict one image on mini": ["predict", model, image],
    }


def cpu_seconds(arguments: list[str]) -> float:
    """CPU time of one process, its children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, check=False)  # noqa: S603
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    """Print a line for each command: median ratio, spread, and the seconds of both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured")
    rounds = parser.parse_args().rounds
    print(measured_on())
    with tempfile.TemporaryDirectory() as folder:
        model, image = str(Path(folder) / "model"), str(Path(folder) / "image.png")
        Image.new("RGB", (64, 48), "orange").save(image)
        subprocess.run([sys.executable, "-c", PREPARE, model], check=True, capture_output=True)  # noqa: S603
        for name, arguments in commands(model, image).items():
            pairs = [(cpu_seconds(["-m", "dpw", *arguments]), cpu_seconds(IMPORT)) for _ in range(rounds + 1)]
            ratios = sorted(own / torch for own, torch in pairs[1:])
            own, torch = (statistics.median(column) for column in zip(*pairs[1:], strict=True))
            spread = f"{ratios[0]:.2f}-{ratios[-1]:.2f}"
            print(f"{name:<30}{statistics.median(ratios):6.2f}  ({spread})  {own:.2f} s / {torch:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
