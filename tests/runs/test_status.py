"""How far a run is, from its folder alone."""

import json
import os
import shutil
import time

import pytest

from dpw.errors import InputError, Interrupted
from dpw.runs.status import cluster_status, run_status, statuses
from tests.helpers.toy_runs import StopAfter, run


def test_a_finished_run(dpw_run):
    found = run_status(dpw_run)
    assert (found.stage, found.learned, found.measured, found.left) == ("finished", 3, 3, 0)
    assert found.seconds > 0 and found.step is None


def test_a_run_that_is_learning(toy, tmp_path):
    with pytest.raises(Interrupted):
        run(toy, tmp_path / "run", StopAfter(15).options())
    found = run_status(tmp_path / "run")
    assert (found.stage, found.learned, found.measured, found.step) == ("learning metals", 1, 1, 3)
    assert found.left > 0


def test_a_folder_of_runs_and_one_that_is_damaged(dpw_run, tmp_path):
    shutil.copytree(dpw_run, tmp_path / "a")
    shutil.copytree(dpw_run, tmp_path / "b")
    (tmp_path / "b" / "run.json").write_text("{}")
    whole, damaged = statuses(tmp_path)
    assert (whole.folder, whole.stage, whole.problem) == (str(tmp_path / "a"), "finished", None)
    assert (damaged.folder, damaged.stage) == (str(tmp_path / "b"), "damaged")
    assert "run.json" in damaged.problem


def test_a_folder_of_folders_of_runs(dpw_run, tmp_path):
    shutil.copytree(dpw_run, tmp_path / "runs" / "mini" / "a")
    shutil.copytree(dpw_run, tmp_path / "runs" / "b")
    found = [one.folder for one in statuses(tmp_path / "runs")]
    assert found == [str(tmp_path / "runs" / "b"), str(tmp_path / "runs" / "mini" / "a")]


def test_what_holds_no_run_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match="holds no run"):
        statuses(tmp_path)
    with pytest.raises(InputError, match="there is no folder"):
        statuses(tmp_path / "nowhere")


def test_what_a_cluster_said_is_found_beside_its_runs(tmp_path):
    assert cluster_status(tmp_path / "run") is None
    (tmp_path / ".dpw-cluster.json").write_text(json.dumps({"at": time.time(), "runs": [], "jobs": []}))
    assert cluster_status(tmp_path / "run")["silent"] is None
    (tmp_path / ".dpw-cluster.json").write_text(json.dumps({"at": 0, "runs": [], "jobs": []}))
    assert cluster_status(tmp_path)["silent"] > 1e6
    for odd in (
        "half a fi",
        "[" * 10**5,
        '{"at": "x", "runs": [], "jobs": []}',
        '{"at": 0, "runs": [1], "jobs": []}',
    ):
        (tmp_path / ".dpw-cluster.json").write_text(odd)
        assert cluster_status(tmp_path) is None
    (tmp_path / ".dpw-cluster.json").unlink()
    os.mkfifo(tmp_path / ".dpw-cluster.json")
    assert cluster_status(tmp_path) is None
