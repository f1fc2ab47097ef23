"""What a result says about where it comes from."""

import re
import subprocess
from types import SimpleNamespace

import pytest
import torch

from dpw.runs import provenance
from dpw.runs.run import resume_run, start_run
from tests.helpers.toy_runs import config


@pytest.fixture(scope="module")
def finished(toy, tmp_path_factory):
    output = tmp_path_factory.mktemp("traced") / "run"
    return start_run(config(toy), output), output


def test_results_name_program_machine_clip_and_data(finished):
    found = finished[0]["provenance"]
    assert re.fullmatch("[0-9a-f]{64}", found["clip"])
    assert found["device"] == "cpu"
    assert found["threads"] >= 1
    assert found["command"]
    assert {"dpw", "python", "torch", "numpy", "pillow"} <= found["versions"].keys()
    assert list(found["data"]) == finished[0]["tasks"]
    assert found["changed"] == {}


def test_a_finished_run_is_only_read(finished):
    before = (finished[1] / "results.json").read_bytes()
    assert resume_run(finished[1])["provenance"] == finished[0]["provenance"]
    assert (finished[1] / "results.json").read_bytes() == before


def test_a_checkout_has_a_commit_and_may_be_changed(tmp_path):
    def git(*arguments):
        author = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run(["git", "-C", str(tmp_path), *author, *arguments], check=True, capture_output=True)

    package = tmp_path / "package" / "runs"
    package.mkdir(parents=True)
    (package / "provenance.py").write_text("")
    assert provenance.checkout(package) == {"commit": None, "dirty": None}
    git("init")
    assert provenance.checkout(package) == {"commit": None, "dirty": None}  # nothing of it is in a commit
    git("add", ".")
    git("commit", "-m", "first")
    found = provenance.checkout(package)
    assert re.fullmatch("[0-9a-f]{40}", found["commit"])
    assert found["dirty"] is False
    (package / "provenance.py").write_text("changed")
    assert provenance.checkout(package)["dirty"] is True


def test_a_run_that_goes_on_elsewhere_says_what_changed():
    started = {"commit": "a", "device": "cpu", "threads": 2, "versions": {"torch": "1"}}
    assert provenance.changed(started, started) == {}
    assert provenance.changed(started, started | {"threads": 8}) == {"threads": 8}


def test_a_device_is_named(monkeypatch):
    assert provenance.device_name(torch.device("cpu")) == "cpu"
    named = SimpleNamespace(get_device_name=lambda _: "Some GPU")
    monkeypatch.setattr(torch, "get_device_module", lambda _: named)
    assert provenance.device_name(torch.device("meta")) == "meta (Some GPU)"
