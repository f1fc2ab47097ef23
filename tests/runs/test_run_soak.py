"""Kills and power cuts over six methods and `learn`: always the bytes of a run that nobody disturbed.

The suite does a few of each; `make soak` does two hundred kills and as many power cuts.
"""

import functools
import os
import random
import signal
import time

import pytest

from dpw import ContinualCLIP, Task
from dpw.cli.learn import _teach
from dpw.data.digest import task_digest
from dpw.runs.config import RunOptions
from dpw.runs.run import start_run
from dpw.storage import unfinished
from dpw.storage.lock import writing
from tests.helpers.power import PowerCut
from tests.helpers.toy_runs import config, outcome, run
from tests.runs.test_run import in_child

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a forked process")

SHORT = {"training.epochs": 2, "training.batch_size": 4}
STEPS = {"training.iterations": 10, "training.batch_size": 4}  # methods that plan steps and no epochs
OWN = {"reference_images": "task", "reference_sentences": "class-prompts"}
METHODS = {
    "dpw": SHORT | {"prefix_length": 2, "adapter_rank": 4},
    "diki": SHORT | {"prefix_length": 2},
    "finetune": STEPS,
    "l2p": STEPS,
    "moe-adapters": STEPS,
    "zscl": STEPS | OWN,
}


def one_life(work, draw: random.Random, folder, seconds: float, power: bool) -> bool:
    """Go on with some work and end it by a kill or a power cut; whether it was ended."""
    syncs = draw.randrange(25)

    def doomed() -> None:
        if power:
            PowerCut(folder, syncs)
        work()

    child = in_child(doomed)
    if not power:
        time.sleep(draw.uniform(0, seconds / 2))
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the work failed by itself"
    return os.WIFSIGNALED(status)


def check_runs(toy, tmp_path, name: str, ends: int, power: bool) -> None:
    """End a run as often as asked; it must end like one that nobody disturbed."""
    chosen = config(toy, method=name, settings=METHODS[name])
    began = time.monotonic()
    run(toy, tmp_path / "straight", method=name, settings=METHODS[name])
    seconds, expected = time.monotonic() - began, outcome(tmp_path / "straight")
    draw, done, twin = random.Random(f"{name}-{power}"), 0, 0
    while done < ends:
        output = tmp_path / f"twin{twin}"
        twin += 1
        options = RunOptions(checkpoint_seconds=0)
        while done < ends and one_life(
            functools.partial(start_run, chosen, output, options),
            draw,
            output,
            seconds,
            power,
        ):
            done += 1
        run(toy, output, method=name, settings=METHODS[name])
        assert outcome(output) == expected
        assert not list(output.rglob("*.tmp"))


def teach(toy, folder) -> None:
    """What `dpw learn` does, for two tasks, each unless it is learned; the last one is asked for again."""
    for name in ("birds", "metals"):
        task = Task.from_folder(toy / "data" / name)
        with writing(folder):
            learned = unfinished.learned_tasks(folder)
            left = (folder / unfinished.FOLDER).is_dir()
            if name in learned and (name == "birds" or not left):
                continue
            if unfinished.is_finished(folder, name, task_digest(task)):
                continue
            source = folder if learned else toy / "clip"
            settings = None if learned else METHODS["dpw"]
            learner = ContinualCLIP.from_pretrained(source, settings=settings)
            _teach(learner, task, folder, {"seed": 0, "checkpoint_seconds": 0.0})


def check_learning(toy, tmp_path, ends: int, power: bool) -> None:
    """End the learning of two tasks as often as asked; the model must be that of one that went through."""
    began = time.monotonic()
    teach(toy, tmp_path / "straight")
    seconds = time.monotonic() - began
    expected = {path.name: path.read_bytes() for path in (tmp_path / "straight").iterdir()}
    draw, done, twin = random.Random(f"learn-{power}"), 0, 0
    while done < ends:
        folder = tmp_path / f"twin{twin}"
        twin += 1
        while done < ends and one_life(lambda: teach(toy, folder), draw, folder, seconds, power):  # noqa: B023
            done += 1
        teach(toy, folder)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == expected


@pytest.mark.parametrize("power", [False, True], ids=["kills", "power cuts"])
def test_a_few_ends_of_a_run(toy, tmp_path, power):
    check_runs(toy, tmp_path, "dpw", 4, power)


@pytest.mark.parametrize("power", [False, True], ids=["kills", "power cuts"])
def test_a_few_ends_of_learning(toy, tmp_path, power):
    check_learning(toy, tmp_path, 4, power)


@pytest.mark.slow
@pytest.mark.parametrize("power", [False, True], ids=["kills", "power cuts"])
@pytest.mark.parametrize("name", METHODS)
def test_thirty_ends_of_a_run_of_each_method(toy, tmp_path, name, power):
    check_runs(toy, tmp_path, name, 30, power)


@pytest.mark.slow
@pytest.mark.parametrize("power", [False, True], ids=["kills", "power cuts"])
def test_thirty_ends_of_learning(toy, tmp_path, power):
    check_learning(toy, tmp_path, 30, power)
