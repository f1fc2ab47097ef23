"""Which cluster is meant, and one sentence where there is none."""

import os
import socket
import sys
import time
from types import SimpleNamespace

import pytest

from dpw.cluster import connection
from dpw.cluster.connection import (
    Head,
    HeadLostError,
    connected,
    local_workers,
    refuse_silent,
    resources,
    slots,
    wait_for_head,
)
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


class Slow:
    """A Ray whose nodes take too long to start, the first times."""

    def __init__(self, failures: int) -> None:
        self.failures, self.given = failures, []

    def is_initialized(self) -> bool:
        return False

    def init(self, **given: object) -> None:
        self.given.append(given)
        os.write(2, b"logging.cc: noise of the core")
        if len(self.given) <= self.failures:
            raise Exception("The current node timed out during startup.\nLook at logs.")

    def shutdown(self) -> None:
        pass


def test_a_local_cluster_that_starts_slowly_is_begun_again(monkeypatch, capfd):
    ray = Slow(failures=2)
    monkeypatch.setattr(connection, "ray_module", lambda: ray)
    with connected("local:2") as started:
        assert started is ray and [one["num_cpus"] for one in ray.given] == [2, 2, 2]
        os.write(2, b"heard again")
    assert capfd.readouterr().err == "heard again"


def test_a_cluster_that_cannot_be_started_is_one_sentence(monkeypatch):
    monkeypatch.setattr(connection, "ray_module", lambda: Slow(failures=99))
    with (
        pytest.raises(InputError, match=r"timed out during startup.*busy") as raised,
        connected("local"),
    ):
        pass
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("address", ["nonsense", "", ":6379", "head:", "ray://head:10001"])
def test_what_is_no_address_is_refused_at_once(address):
    with pytest.raises(InputError, match="give local, local:N, auto, or HOST:PORT"):
        refuse_silent(address)


def test_an_address_where_nothing_listens_is_refused_in_seconds():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
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

    def get_runtime_context(self) -> SimpleNamespace:
        return SimpleNamespace(gcs_address="127.0.0.1:1")

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


def test_a_head_that_is_silent_for_long_is_lost(monkeypatch):
    head = Head(Fake(CPU=1.0, GPU=1.0), every=0.0)
    monkeypatch.setattr(connection, "silence", lambda *_: None)
    head.refuse_lost()
    monkeypatch.setattr(connection, "silence", lambda *_: "refused")
    head.refuse_lost(patience=100.0)
    with pytest.raises(HeadLostError, match=r"does not answer any more.*same command") as raised:
        head.refuse_lost(patience=0.0)
    assert raised.value.devices


def test_a_lost_head_is_waited_for_until_it_answers_or_somebody_stops(monkeypatch):
    lost, answers = HeadLostError("127.0.0.1:1", devices=False), ["refused", None]
    monkeypatch.setattr(connection.time, "sleep", lambda _: None)
    monkeypatch.setattr(connection, "silence", lambda *_: answers.pop(0))
    wait_for_head(lost, lambda: False)
    assert not answers
    answers = ["refused"]
    with pytest.raises(HeadLostError):
        wait_for_head(lost, lambda: True)
