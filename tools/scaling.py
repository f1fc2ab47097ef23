"""The figures of docs/scaling.md: 11 tasks, every method, 3 seeds on 1 to 512 workers; 1 and 2 workers here.

python tools/scaling.py --measure    # seconds of ViT-B/16 on this machine, some minutes
python tools/scaling.py --workers    # efficiency of 1 and 2 workers on mini; eight minutes on two quiet cores
python tools/scaling.py              # the table, from the seconds below
"""

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from dpw.cluster.simulate import RunCost, simulate
from dpw.methods import METHODS, configure
from dpw.methods.config import MethodConfig
from dpw.methods.parts.steps import steps_of
from dpw.runs.config import RunConfig
from dpw.runs.reproduce import sizes

CLIP = "openai/clip-vit-base-patch16"
APART = tuple(name for name, method in METHODS.items() if method.isolated)
FULL = {"lada": "full"}  # presets for all images of a task, where the default is for a few
WORKED = ("signs", "digits", "portraits", "aerial")  # the tasks of mini on which workers are timed
DAY = 86400
PER_PART = 0.55  # seconds that a part costs besides, measured on mini: Ray, starting workers, loading


class Seconds(NamedTuple):
    """Of ViT-B/16: one image and one prompt of a training step, one image that is answered."""

    image: float
    prompt: float
    answer: float


# One thread of an AMD EPYC. Measured: an image of dpw, trained on and answered (a pass of plain CLIP and one
# of its own, taken as equal halves). Counted from it by operations: finetune, a prompt, lost in noise, and
# lada, whose image tower has no backward pass.
MEASURED = {
    "lada": Seconds(0.59, 0.03, 0.59),
    "dpw": Seconds(1.24, 0.03, 1.17),
    "finetune": Seconds(1.24, 0.03, 0.59),
    "rail": Seconds(0.0, 0.0, 0.59),
}


def seconds_of(method: str) -> Seconds:
    """The costs of a method or of the one of its kind."""
    if not METHODS[method].trains:
        return MEASURED["rail"]
    if method in MEASURED:
        return MEASURED[method]
    return MEASURED["dpw" if METHODS[method].isolated else "finetune"]


def run_cost(method: str) -> RunCost:
    """One run of MTIL: steps of the method's own settings, test sets once for plain CLIP and once for itself.

    Methods that keep tasks apart remember features and pass an image about twice; others after every task.
    """
    config = RunConfig(benchmark="mtil", model=CLIP, method=method)
    preset = FULL.get(method, "default")
    each, settings, cost = sizes(config), configure(method, preset, clip=CLIP), seconds_of(method)
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
    before = 0.0 if method == "zero-shot" else train * MEASURED["rail"].answer
    if not METHODS[method].trains:
        return before
    batch = min(settings.training.batch_size, train)
    return before + steps_of(settings.training, name, train) * (batch * cost.image + classes * cost.prompt)


def table() -> None:
    """Days for 1 to 512 workers, with and without task parallelism; `c-clip` alone trains forty epochs."""
    costs = {name: run_cost(name) for name in METHODS}
    groups = {"all": list(costs), "all but c-clip": [n for n in costs if n != "c-clip"], "isolated": APART}
    for title, names in groups.items():
        runs = [costs[name] for name in names for _ in range(3)]
        longest = max(names, key=lambda name: costs[name].total)
        part = max(max(costs[name].learn) for name in names)
        print(f"{title}: {len(names)} methods, three seeds; days, and how busy workers are")
        for workers in (1, 8, 64, 512):
            whole, split = (
                simulate(runs, workers, by_tasks=by_tasks, per_part=PER_PART) for by_tasks in (False, True)
            )
            print(
                f"{workers:>6} workers: whole runs {whole.seconds / DAY:8.2f} ({100 * whole.busy:5.1f} %), "
                f"by tasks {split.seconds / DAY:8.2f} ({100 * split.busy:5.1f} %)"
            )
        print(f"  longest run {longest}, {costs[longest].total / DAY:.2f}; longest task {part / DAY:.2f}")


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


def measure_workers(rounds: int, iterations: int) -> None:
    """The same run by one process, one worker and two workers, taking turns; seconds of the wall clock.

    Two processes without Ray, each with one of two tasks at once, say what the second core brings at all.
    """
    os.environ.setdefault("RAY_worker_niceness", "0")  # or the workers would wait for whatever else runs
    tasks, load = len(WORKED), os.getloadavg()[0]
    print(f"dpw on mini, {tasks} tasks of {iterations} steps, one thread; load {load:.1f} before", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        _alone(1, Path(scratch) / "first", WORKED)  # renders the images, so that nobody has to
        for number in range(rounds):
            place = Path(scratch) / str(number)
            alone = _alone(iterations, place / "alone", WORKED)
            one, two = (_on_workers(iterations, place / f"on-{count}", count) for count in (1, 2))
            single = _alone(iterations, place / "single", WORKED[:1])
            both = _at_once(iterations, place)
            each, bound = (one - alone) / (2 * tasks + 2), 2 * single / both
            print(f"round {number}: one process {alone:.1f} s, one worker {one:.1f} s, two {two:.1f} s")
            more, minute = 100 * (one / alone - 1), each / 0.6
            print(f"  Ray costs {more:+.1f} %, {each:+.2f} s a part, which is {minute:+.1f} % of a minute")
            print(f"  two workers: {one / two:.2f} times as fast as one, {alone / two:.2f} as one process")
            print(f"  without Ray two processes at once bring {bound:.2f}: {single:.1f} s and {both:.1f} s")


def _wanted(iterations: int, tasks: Sequence[str]) -> RunConfig:
    """The run that is timed: tasks of the same number of steps."""
    settings = {"training.iterations": iterations}
    return RunConfig(benchmark="mini", model="mini", order=tuple(tasks), settings=settings)


def _alone(iterations: int, folder: Path, tasks: Sequence[str]) -> float:
    """Seconds of a run in this process, on one thread."""
    import torch

    from dpw.runs.run import start_run

    torch.set_num_threads(1)
    began = time.monotonic()
    start_run(_wanted(iterations, tasks), folder)
    return time.monotonic() - began


def _at_once(iterations: int, folder: Path) -> float:
    """Seconds of two processes that learn the same task at the same time, the slower one's."""
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        started = [pool.submit(_alone, 1, folder / f"warm-{n}", WORKED[:1]) for n in range(2)]
        [one.result() for one in started]
        started = [pool.submit(_alone, iterations, folder / f"both-{n}", WORKED[:1]) for n in range(2)]
        return max(one.result() for one in started)


def _on_workers(iterations: int, folder: Path, count: int) -> float:
    """Seconds of the run on a local cluster that is up; its workers start and load CLIP within them."""
    from dpw.cluster.connection import connected
    from dpw.cluster.grid import GridOptions, PlannedRun, run_grid
    from dpw.cluster.workers import RayWorkers

    with connected(f"local:{count}") as ray:
        began = time.monotonic()
        planned = [PlannedRun(_wanted(iterations, WORKED), folder / "run")]
        run_grid(planned, RayWorkers(ray, 1), GridOptions(folder / "store"))
        return time.monotonic() - began


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--workers", action="store_true")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=180)
    given = parser.parse_args()
    if given.workers:
        measure_workers(given.rounds, given.iterations)
    else:
        measure_here() if given.measure else table()
