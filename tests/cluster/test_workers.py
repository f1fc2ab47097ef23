"""A real Ray cluster on this machine: the runs it makes are those of one process, byte for byte."""

import os

import pytest

from dpw.cluster.batch_prediction import Question, predict_on_cluster, prepare
from dpw.cluster.connection import connected
from dpw.cluster.grid import GridOptions, PlannedRun, run_grid
from dpw.cluster.workers import RayWorkers
from tests.helpers.toy_runs import config, outcome, run

pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
SHORT = {"prefix_length": 2, "adapter_rank": 4, "training.iterations": 3, "training.batch_size": 4}


@pytest.fixture(scope="module")
def ray():
    """Two workers of one core each."""
    with connected("local:2") as started:
        yield started


def test_two_methods_give_the_bytes_of_one_process(toy, tmp_path, ray):
    kinds = {"dpw": SHORT, "rail": {"width": 40}}
    order = ["birds", "signs"]
    wanted = {name: {"method": name, "settings": chosen, "order": order} for name, chosen in kinds.items()}
    runs = [PlannedRun(config(toy, **one), tmp_path / "par" / name) for name, one in wanted.items()]
    run_grid(runs, RayWorkers(ray, 1), GridOptions(tmp_path / "store", tmp_path / "par" / "status.json"))
    for name, one in wanted.items():
        run(toy, tmp_path / "seq" / name, **one)
        assert outcome(tmp_path / "par" / name) == outcome(tmp_path / "seq" / name)


@pytest.mark.slow
def test_images_are_answered_by_a_pool_of_workers(saved, toy, tmp_path, ray):
    question, source = Question(str(saved[1])), str(toy / "data" / "birds")
    left = prepare(source, question, tmp_path / "out", size=15)
    found = list(predict_on_cluster(ray, left, question, tmp_path / "out", 2))
    assert sum(one["images"] for one in found) == 45
    assert not prepare(source, question, tmp_path / "out", size=15), "nothing is left to do"
    assert os.getpid() not in {one["worker"] for one in found}
