"""Which cluster is meant, and one sentence where there is none."""

import socket
import sys
import time

import pytest

from dpw.cluster.connection import connected, local_workers, refuse_silent, resources, slots
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


@pytest.mark.parametrize("address", ["nonsense", "", ":6379", "head:", "ray://head:10001"])
def test_what_is_no_address_is_refused_at_once(address):
    with pytest.raises(InputError, match="give local, local:N, auto, or HOST:PORT"):
        refuse_silent(address)


def test_an_address_where_nothing_listens_is_refused_in_seconds():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = "127.0.0.1:{}".format(listening.getsockname()[1])
        refuse_silent(address)
    began = time.monotonic()
    with pytest.raises(InputError, match=f"no Ray cluster answers at {address}"):
        refuse_silent(address)
    assert time.monotonic() - began < 15, "Ray itself would ask for minutes"
    with pytest.raises(InputError, match="no Ray cluster answers"):
        refuse_silent("127.0.0.1:99999999")


class Fake:
    """What a cluster says it has."""

    def __init__(self, **there: float) -> None:
        self.there = there

    def cluster_resources(self) -> dict[str, float]:
        return self.there

    def nodes(self) -> list[dict[str, object]]:
        return [{"Alive": True, "Resources": self.there}]


def test_a_job_takes_its_threads_or_a_device():
    assert slots(Fake(CPU=8.0), 2) == 4
    assert slots(Fake(CPU=64.0, GPU=4.0), 2) == 4
    assert slots(Fake(CPU=1.0), 2) == 1


def test_more_threads_than_any_machine_has_are_refused():
    assert resources(Fake(CPU=8.0), 8) == {"num_cpus": 8, "num_gpus": 0}
    with pytest.raises(InputError, match="no machine of the cluster has more than 8 cores"):
        resources(Fake(CPU=8.0), 9)
