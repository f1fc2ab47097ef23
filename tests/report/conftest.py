"""Finished toy runs: DPW with two seeds, DIKI, fine-tuning and plain CLIP."""

import pytest

from dpw.report import write_report
from tests.helpers.toy_runs import run

TRAINING = {"training.epochs": 2, "training.batch_size": 4}
SETTINGS = {
    "dpw": TRAINING | {"prefix_length": 2, "adapter_rank": 4},
    "diki": TRAINING | {"prefix_length": 2},
    "finetune": {"training.iterations": 2, "training.warmup": 0, "training.batch_size": 4},
    "zero-shot": {},
}


def make_runs(toy, folder):
    """A folder of runs over the toy benchmark."""
    for method, settings in SETTINGS.items():
        run(toy, folder / f"{method}-seed0", method=method, settings=settings)
    run(toy, folder / "dpw-seed1", settings=SETTINGS["dpw"], seed=1)
    return folder


@pytest.fixture(scope="session")
def runs(toy, tmp_path_factory):
    return make_runs(toy, tmp_path_factory.mktemp("finished"))


@pytest.fixture(scope="session")
def report(runs, tmp_path_factory):
    return write_report([runs], tmp_path_factory.mktemp("page") / "report.html")
