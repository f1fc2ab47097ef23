"""One finished DPW run and one of DIKI over the toy benchmark, and the first one opened for looking into."""

import pytest

from dpw.analysis import open_run
from tests.helpers.toy_runs import run

TRAINING = {"training.epochs": 2, "training.batch_size": 4, "prefix_length": 2}


@pytest.fixture(scope="session")
def dpw_run(toy, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "dpw"
    # A bias near zero makes the totals exceed one, so that the adapter has something to do.
    run(toy, folder, settings=TRAINING | {"adapter_rank": 4, "image_bias": 0.5})
    return folder


@pytest.fixture(scope="session")
def diki_run(toy, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "diki"
    run(toy, folder, method="diki", settings=TRAINING)
    return folder


@pytest.fixture(scope="session")
def subject(dpw_run):
    return open_run(dpw_run, images=6)


@pytest.fixture(scope="session")
def picture(toy):
    """A test image of the first task."""
    return toy / "data" / "birds" / "test" / "crow" / "0.png"
