"""Several processes in one training: what is refused before Ray Train starts anything."""

import pytest

from dpw.cluster.devices import MARK, _sentence, run_on_devices
from dpw.errors import InputError
from tests.cluster.test_connection import Fake
from tests.helpers.toy_runs import config


def test_more_processes_than_there_is_room_for_are_refused(toy, tmp_path):
    pytest.importorskip("ray")
    with pytest.raises(InputError, match="room for 2; use fewer"):
        run_on_devices(Fake(CPU=2.0), config(toy), tmp_path / "run", 3)


def test_the_sentence_of_a_process_is_found_in_what_ray_says():
    said = f"ray::Worker()\n  File x\nRuntimeError: {MARK}a.png is no image: remove it\n"
    assert _sentence(RuntimeError(said)) == "a.png is no image: remove it"
    assert _sentence(RuntimeError("anything else")) is None
