"""Many learned tasks: loading them, the first answer, memory, and saving one more (`make bench-many`).

The tasks are of published shapes with random numbers. Every number of tasks is measured in a process of its
own. Seconds are of the processor; for loading and saving those of the clock stand beside them.
"""

import argparse
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from benchmarks.measure import measured_on
from torch.nn import functional as F

from benchmarks import models
from dpw.engine.prediction import predict_pixels
from dpw.methods import Candidates
from dpw.methods.parts.weighted import ROUTER
from dpw.methods.parts.weighted_texts import points_of
from dpw.methods.routing.gaussian import TEXTS
from dpw.storage import files, model_folder
from dpw.storage.lock import writing
from dpw.storage.model_json import KIND, commit

GOALS = {51: "cold / warm ≤ 1.3", 200: "load < 2 s, memory < 1.5 GB"}


def write_model(folder: Path, shape: str, tasks: int, classes: int) -> None:
    """A model folder of `dpw` whose tasks are one random task, each a little larger than the one before."""
    method = models.learned("dpw", models.backbone(shape), 1, classes)
    width, gate = method.backbone.feature_width, method.answers.router.gates()[0]
    points = points_of(method.config.grid_points, float(gate))
    texts = F.normalize(torch.randn(len(points), classes, width), dim=-1)
    state = method.task_state(0) | {f"{ROUTER}.{TEXTS}": texts}
    with writing(folder):
        entries = []
        for index in range(tasks):
            group = models.class_group(index, classes)
            known = {"name": group.name, "classes": list(group.classes), "templates": list(group.templates)}
            larger = {name: tensor * (1 + 1e-4 * index) for name, tensor in state.items()}
            tensors = files.write_tensors(folder, group.name, larger)
            entries.append({**known, "protocol": "coop", "details": {}, "tensors": tensors})
        shared = files.write_tensors(folder, "shared", method.shared_state())
        commit(folder, {**model_folder.header(method), "kind": KIND, "shared": shared, "tasks": entries})


def timed(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds of the processor and of the clock, and what was done."""
    clock, processor = time.perf_counter(), time.process_time()
    done = work()
    return time.process_time() - processor, time.perf_counter() - clock, done


def megabytes(what: str) -> float:
    """Memory of this process: `VmRSS` now, `VmHWM` at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(what)).split()[1]) / 1000


def measure(folder: Path, shape: str, rounds: int) -> dict[str, Any]:
    """All figures of one model, in this process."""
    threads = torch.get_num_threads()
    backbone = models.backbone(shape)
    backbone.fingerprint()
    images = [models.photographs(shape, 1, seed) for seed in range(3)]
    with torch.inference_mode():
        backbone.encode_images(images[0])  # what the libraries set up at their first call
    alone = megabytes("VmRSS")
    found: dict[str, list[float]] = {"load": [], "load, clock": [], "cold": [], "warm": []}
    method: Any = None
    for _ in range(rounds):
        method = None
        gc.collect()  # the model of the round before
        torch.set_num_threads(threads)  # files are hashed by as many
        spent, clock, method = timed(
            lambda: model_folder.load_model(folder, lambda kind, config, _: kind(backbone, config))
        )
        found["load"].append(spent)
        found["load, clock"].append(clock)
        torch.set_num_threads(1)
        ask = [_answer_seconds(method, image) for image in images]
        found["cold"].append(ask[0])
        found["warm"].append(statistics.median(ask[1:]))
    one_image = megabytes("VmRSS") - alone
    for index in range(len(method.bank)):
        method.bank.part(index, "image")  # as images of all tasks would
    everything, most = megabytes("VmRSS") - alone, megabytes("VmHWM") - alone
    models.add_task(method, len(method.tasks), len(method.tasks[0].classes))
    spent, clock, _ = timed(lambda: model_folder.save_model(method, folder))
    again, _, _ = timed(lambda: model_folder.save_model(method, folder))
    return {
        "tasks": len(method.tasks) - 1,
        "folder MB": sum(path.stat().st_size for path in folder.glob("*.safetensors")) / 1e6,
        "load s": _spread(found["load"]),
        "load s, clock": _spread(found["load, clock"]),
        "cold / warm image": _spread([a / b for a, b in zip(found["cold"], found["warm"], strict=True)]),
        "warm image s": _spread(found["warm"]),
        "MB beside CLIP after images": round(one_image),
        "MB beside CLIP after images of every task": round(everything),
        "MB beside CLIP at most": round(most),
        "save one more s": round(spent, 3),
        "save one more s, clock": round(clock, 3),
        "save unchanged s": round(again, 3),
    }


def _answer_seconds(method: Any, image: torch.Tensor) -> float:
    """Seconds of the processor for one image among all learned classes."""
    question = Candidates.learned([task.group() for task in method.tasks])
    return timed(lambda: predict_pixels(method, image, ["image"], question, 5, None))[0]


def _spread(values: list[float]) -> str:
    """Median, least and most."""
    middle = statistics.median(values)
    return f"{middle:.2f} ({min(values):.2f}–{max(values):.2f}, {len(values)} rounds)"


def main() -> int:
    """Measure models of several numbers of tasks one after another."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", default="vit-b-16", choices=list(models.SHAPES))
    parser.add_argument("--tasks", type=int, nargs="+", default=[51, 200])
    parser.add_argument("--classes", type=int, default=20, help="of every task")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="measure this model here; made by the command itself")
    given = parser.parse_args()
    if given.folder is not None:
        print(json.dumps(measure(given.folder, given.shape, given.rounds)))
        return 0
    print(measured_on())
    for tasks in given.tasks:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "model"
            write_model(folder, given.shape, tasks, given.classes)
            command = [sys.executable, "-m", "benchmarks.many", "--folder", str(folder)]
            command += ["--shape", given.shape, "--rounds", str(given.rounds)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
        goal = GOALS.get(tasks, "")
        print(f"{given.shape}, {tasks} tasks of {given.classes} classes{f' (goal: {goal})' if goal else ''}")
        for name, value in json.loads(done.stdout.splitlines()[-1]).items():
            print(f"  {name:<45}{value:.4g}" if isinstance(value, float) else f"  {name:<45}{value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
