"""A worker's signs of life, and how it is asked to stop."""

import json

from dpw.cluster import jobs
from dpw.cluster.jobs import Beacon, Failed, Job, carry_out, read_beacon
from tests.helpers.toy_runs import config


def test_a_beacon_says_who_works_and_how_far(tmp_path, monkeypatch):
    beacon = Beacon(tmp_path / "a.json")
    beacon.on_begin("birds", 12, 3)
    monkeypatch.setattr(jobs, "PULSE", -1)
    beacon.on_step("birds", 0, 2, 4, 0.5)
    beacon.on_message("measuring")
    content = json.loads((tmp_path / "a.json").read_text())
    assert (content["step"], content["steps"], content["message"]) == (4, 12, "measuring")
    assert content["pid"] and content["node"]
    assert not beacon.should_stop()
    (tmp_path / "stop").touch()
    assert beacon.should_stop()


def test_no_or_half_a_sign_is_none(tmp_path):
    assert read_beacon(tmp_path / "none.json") == {}
    (tmp_path / "half.json").write_text('{"step"')
    assert read_beacon(tmp_path / "half.json") == {}


def test_a_mistake_of_the_users_comes_back_as_a_value(toy, tmp_path):
    wanted = config(toy, order=["nothing"])
    job = Job("begin", tmp_path / "run", wanted, tmp_path / "store", tmp_path / "at", directory=tmp_path)
    found = carry_out(job)
    assert isinstance(found, Failed) and "nothing" in found.sentence and not found.stopped
    assert not list((tmp_path / "at").iterdir())


def test_a_job_that_is_asked_to_stop_says_so(toy, tmp_path):
    (tmp_path / "at").mkdir()
    (tmp_path / "at" / "stop").touch()
    wanted = config(toy)
    job = Job("finish", tmp_path / "run", wanted, tmp_path / "store", tmp_path / "at", directory=tmp_path)
    found = carry_out(job)
    assert isinstance(found, Failed) and found.stopped
