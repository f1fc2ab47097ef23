"""A model and runs that were saved before the modules moved into rooms load, predict, compare and resume."""

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file
from torch.testing import assert_close

from dpw import ContinualCLIP
from dpw.methods.routing.covariance import DIRECTIONS, cholesky_factor
from tests.helpers.checks import nonempty
from tests.helpers.command_line import dpw

FIXTURE = Path(__file__).parents[1] / "fixtures" / "before_rooms"


@pytest.fixture
def old(tmp_path, monkeypatch):
    """A copy of the saved folders; their paths are relative to the world."""
    shutil.copytree(FIXTURE, tmp_path / "old")
    monkeypatch.chdir(tmp_path / "old" / "world")
    return tmp_path / "old"


def accuracy(run):
    """The accuracy matrix that a run found."""
    return json.loads((run / "results.json").read_text())["accuracy"]


def probabilities(answer):
    """By class, of a prediction as JSON."""
    return dict([(answer["class"], answer["probability"]), *answer["alternatives"]])


def test_the_model_predicts_as_it_did(old):
    expected = nonempty(json.loads((old / "predictions.json").read_text()))
    model = ContinualCLIP.from_pretrained(old / "dpw-done" / "model", backbone="clip")
    assert model.tasks == ["birds", "metals"]
    answers = model.predict([answer["image"] for answer in expected], top=4)
    for found, before in zip([answer.as_json() for answer in answers], expected, strict=True):
        assert (found["class"], found["task"]) == (before["class"], before["task"])
        assert found["confidence"] == pytest.approx(before["confidence"], abs=1e-5)
        assert probabilities(found) == pytest.approx(probabilities(before), abs=1e-5)


def test_the_finished_run_is_compared_and_reported(old, capsys):
    code, out, err = dpw(capsys, "compare", old / "dpw-done", "--format", "csv")
    assert code == 0, err
    assert "dpw" in out
    code, _, err = dpw(capsys, "report", old / "dpw-done", "--output", old / "report.html")
    assert code == 0, err
    assert (old / "report.html").is_file()


def test_the_finished_run_gives_its_results_again(old, capsys):
    before = (old / "dpw-done" / "results.json").read_bytes()
    code, _, err = dpw(capsys, "resume", old / "dpw-done")
    assert code == 0, err
    assert (old / "dpw-done" / "results.json").read_bytes() == before


def test_the_stopped_run_resumes_to_what_the_finished_one_learned(old, capsys):
    code, _, err = dpw(capsys, "resume", old / "dpw-stopped")
    assert code == 0, err
    assert accuracy(old / "dpw-stopped") == accuracy(old / "dpw-done")
    for part in ("birds", "metals", "shared"):
        (found,) = (old / "dpw-stopped" / "model").glob(f"{part}-*.safetensors")
        (expected,) = (old / "dpw-done" / "model").glob(f"{part}-*.safetensors")
        tensors = load_file(found)
        if "router.directions" in tensors:  # new since, as are texts
            gaussian = {name: tensors.pop(f"router.{name}") for name in DIRECTIONS}
            tensors["router.cholesky"] = cholesky_factor(gaussian)
        tensors.pop("router.texts", None)
        assert_close(tensors, load_file(expected), rtol=1e-4, atol=1e-4)
