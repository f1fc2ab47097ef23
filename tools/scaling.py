"""The simulated table of docs/scaling.md: 11 tasks, 19 methods, 3 seeds on 1 to 512 workers.

python tools/scaling.py --measure    # seconds of ViT-B/16 on this machine, some minutes
python tools/scaling.py --workers    # efficiency of 1 and 2 workers on mini; some minutes on a quiet machine
python tools/scaling.py              # the table, from the seconds below
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from dpw.cluster.simulate import RunCost, simulate
from dpw.methods import METHODS, configure
from dpw.methods.config import MethodConfig
from dpw.methods.parts.steps import steps_of
from dpw.runs.config import RunConfig
from dpw.runs.reproduce import sizes

CLIP = "openai/clip-vit-base-patch16"
MIXED = ("finetune", "lwf", "icarl", "wise-ft", "zscl", "moe-adapters", "l2p", "dualprompt", "coda-prompt")
APART = (
    "dpw", "dpw-reduced", "dpw-ridge", "diki", "s-prompts", "dpeclip", "tip-adapter", "linear-probe", "rail",
    "zero-shot",
)  # fmt: skip
WORKED = ("signs", "digits", "portraits", "aerial")  # the tasks of mini on which workers are timed
PER_PART = 0.55  # seconds that a part costs besides, measured on mini: Ray, starting workers, loading


class Seconds(NamedTuple):
    """Of ViT-B/16: one image and one prompt of a training step, one image that is answered."""

    image: float
    prompt: float
    answer: float


# One thread of an AMD EPYC. Measured: an image of dpw, trained on and answered (a pass of plain CLIP and one
# of its own, taken as equal halves). Counted from it by operations: finetune, and a prompt, lost in noise.
MEASURED = {
    "dpw": Seconds(1.24, 0.03, 1.17),
    "finetune": Seconds(1.24, 0.03, 0.59),
    "rail": Seconds(0.0, 0.0, 0.59),
}


def seconds_of(method: str) -> Seconds:
    """The costs of a method or of the one of its kind."""
    if not METHODS[method].trains:
        return MEASURED["rail"]
    return MEASURED["dpw" if METHODS[method].isolated else "finetune"]


def run_cost(method: str) -> RunCost:
    """One run of MTIL: steps of the method's own settings, test sets once for plain CLIP and once for itself.

    Methods that keep tasks apart remember features and pass an image about twice; others after every task.
    """
    config = RunConfig(benchmark="mtil", model=CLIP, method=method)
    each, settings, cost = sizes(config), configure(method, clip=CLIP), seconds_of(method)
    tasks = list(each.items())
    passes = 1 if METHODS[method].isolated else len(tasks)
    apart = METHODS[method].isolated and METHODS[method].trains
    plain = 0.0 if apart else MEASURED["rail"].answer  # part of an isolated method's own answer
    learn = [_learning(settings, name, size, cost, method) for name, size in tasks]
    measure = [size[2] * (plain + passes * cost.answer) for _, size in tasks]
    return RunCost(tuple(learn), tuple(measure), METHODS[method].isolated, around=10.0)


def _learning(
    settings: MethodConfig, name: str, size: tuple[int, int, int], cost: Seconds, method: str
) -> float:
    """The steps of one task, and its images once before."""
    classes, train, _ = size
    before = train * MEASURED["rail"].answer
    if not METHODS[method].trains:
        return before
    batch = min(settings.training.batch_size, train)
    return before + steps_of(settings.training, name, train) * (batch * cost.image + classes * cost.prompt)


def table() -> None:
    """Days for 1 to 512 workers, with and without task parallelism."""
    runs = [run_cost(method) for method in (*APART, *MIXED) for _ in range(3)]
    alone = [run_cost(method) for method in APART for _ in range(3)]
    print(f"{'workers':>8} {'whole runs':>22} {'by tasks':>22} {'isolated, whole':>22} {'by tasks':>22}")
    for workers in (1, 8, 64, 512):
        cells = []
        for chosen in (runs, alone):
            for by_tasks in (False, True):
                found = simulate(chosen, workers, by_tasks=by_tasks, per_part=PER_PART)
                cells.append(f"{found.seconds / 86400:10.2f} d, {100 * found.busy:5.1f} %")
        print(f"{workers:>8} " + " ".join(f"{cell:>22}" for cell in cells))
    slowest = max(runs, key=lambda run: run.total)
    print(
        f"longest run {slowest.total / 86400:.2f} d; longest task of an isolated one "
        f"{max(max(run.learn) for run in alone) / 86400:.2f} d"
    )


def measure_here() -> None:
    """Time a few steps on a ViT-B/16 with random weights, in CPU seconds of one thread."""
    import torch
    from benchmarks.models import backbone

    from dpw.runs import estimate

    torch.set_num_threads(1)
    estimate.time.monotonic = time.process_time  # so that others on this machine do not count
    estimate.STEPS, estimate.IMAGES, measure = 2, 4, estimate.measure  # small, and noisy
    below = backbone("vit-b-16")
    for method in MEASURED:
        settings = configure(method, "default", {"training.batch_size": 4} if METHODS[method].trains else {})
        few = measure(method, settings, below, 5)
        many = measure(method, settings, below, 25) if METHODS[method].trains else few
        prompt = (many.step - few.step) / 20
        image = (few.step - 5 * prompt) / 4
        print(f'"{method}": Seconds({image:.4f}, {prompt:.4f}, {few.image:.4f})', flush=True)


def measure_workers(rounds: int, epochs: int) -> None:
    """The same run by one process, one worker and two workers, taking turns; seconds of the wall clock."""
    settings = {"training.epochs": epochs}
    print(f"dpw on mini, {len(WORKED)} tasks, {epochs} epochs; load {os.getloadavg()[0]:.1f} before")
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as scratch:
            wanted = RunConfig(benchmark="mini", model="mini", order=WORKED, settings=settings)
            alone = _alone(wanted, Path(scratch) / "alone")
            one, two = (_on_workers(wanted, Path(scratch) / f"on-{count}", count) for count in (1, 2))
        more, faster = 100 * (one / alone - 1), one / two
        print(f"round {number}: one process {alone:.1f} s, one worker {one:.1f} s, two workers {two:.1f} s")
        print(f"  Ray costs {more:+.1f} %; two workers are {faster:.2f} times as fast as one", flush=True)


def _alone(wanted: RunConfig, folder: Path) -> float:
    """Seconds of the run in this process, on one thread."""
    import torch

    from dpw.runs.run import start_run

    torch.set_num_threads(1)
    began = time.monotonic()
    start_run(wanted, folder)
    return time.monotonic() - began


def _on_workers(wanted: RunConfig, folder: Path, count: int) -> float:
    """Seconds of the run on a local cluster that is up; its workers start and load CLIP within them."""
    from dpw.cluster.connection import connected
    from dpw.cluster.grid import GridOptions, PlannedRun, run_grid
    from dpw.cluster.workers import RayWorkers

    with connected(f"local:{count}") as ray:
        began = time.monotonic()
        run_grid([PlannedRun(wanted, folder / "run")], RayWorkers(ray, 1), GridOptions(folder / "store"))
        return time.monotonic() - began


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--workers", action="store_true")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=8)
    given = parser.parse_args()
    if given.workers:
        measure_workers(given.rounds, given.epochs)
    else:
        measure_here() if given.measure else table()
