"""Which cluster is meant, and one sentence where there is none."""

import sys

import pytest

from dpw.cluster.connection import connected, local_workers, slots
from dpw.errors import InputError


def test_local_clusters_may_say_how_many_workers():
    assert local_workers("local:3") == 3
    assert [local_workers(name) for name in ("local", "auto", "10.0.0.1:6379")] == [None] * 3


@pytest.mark.parametrize("name", ["local:none", "local:0", "local:-1"])
def test_no_number_of_workers_is_one_sentence(name):
    with pytest.raises(InputError, match="such as local:2"):
        local_workers(name)


def test_without_ray_the_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'dpw\[cluster\]'"), connected("local"):
        pass


class Fake:
    """What a cluster says it has."""

    def __init__(self, **there: float) -> None:
        self.there = there

    def cluster_resources(self) -> dict[str, float]:
        return self.there


def test_a_job_takes_its_threads_or_a_device():
    assert slots(Fake(CPU=8.0), 2) == 4
    assert slots(Fake(CPU=64.0, GPU=4.0), 2) == 4
    assert slots(Fake(CPU=1.0), 2) == 1
