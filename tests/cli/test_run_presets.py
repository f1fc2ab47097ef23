"""Presets on the command line: listed briefly, and each with a folder of its own."""

import json

import pytest
from typer.testing import CliRunner

from dpw.cli import app


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_families_of_presets_are_listed_by_their_size_and_in_full_for_programs():
    shown = run("methods")
    assert "presets: official, ablation/... (37)" in shown.output
    found = {entry["name"]: entry["presets"] for entry in json.loads(run("methods", "--json").output)}
    assert "ablation/no-rwm" in found["dpw"]


def test_an_ablation_is_one_option_and_stands_beside_the_method(toy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = ["--set", "training.epochs=1", "--set", "prefix_length=2", "--set", "adapter_rank=4"]
    for preset in ("default", "ablation/no-rwm"):
        result = run("run", toy / "toy.yaml", "--model", toy / "clip", "--preset", preset, *small)
        assert result.exit_code == 0, result.output
    folders = sorted(path.name for path in (tmp_path / "runs" / "toy").iterdir())
    assert folders == ["dpw-ablation-no-rwm-seed0", "dpw-seed0"]
    told = run("compare", "runs/toy").output
    assert "dpw (ablation/no-rwm) {" in told
    counts = [json.loads((tmp_path / "runs" / "toy" / f / "results.json").read_text()) for f in folders]
    assert counts[0]["parameters"] < counts[1]["parameters"]


def test_an_unknown_preset_is_answered_by_what_there_is(toy):
    result = run("run", toy / "toy.yaml", "--model", toy / "clip", "--preset", "ablation/no-rmw")
    with pytest.raises(ValueError, match=r"no preset 'ablation/no-rmw'.*ablation/no-rwm"):
        raise result.exception
