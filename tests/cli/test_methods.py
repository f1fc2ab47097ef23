"""`dpw methods`: all methods, or every setting of one, without loading torch."""

import json
import subprocess
import sys

import pytest

from tests.helpers.command_line import dpw


def test_every_setting_of_one_method(capsys):
    code, out, _ = dpw(capsys, "methods", "dpw")
    assert code == 0
    assert "prefix_length = 8  (whole number ≥ 1)\n      Prefixes L of a task in every block." in out
    assert "training.epochs = 10" in out
    entry = json.loads(dpw(capsys, "methods", "dpw", "--json")[1])
    assert {one["name"]: one["default"] for one in entry["settings"]}["gate"] == 0.825


@pytest.mark.parametrize("words", [[], ["lada"], ["moe-adapters"], ["dpw"]])
def test_no_line_is_wider_than_the_terminal(capsys, monkeypatch, words):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = dpw(capsys, "methods", *words)
    assert code == 0
    assert 60 < max(len(line) for line in out.splitlines()) <= 80


def test_a_method_that_does_not_exist_is_one_sentence(capsys):
    code, _, err = dpw(capsys, "methods", "dwp")
    assert code == 2
    assert "no method is called 'dwp'; there are c-clip, coda-prompt" in err


def test_methods_of_other_packages_are_asked_too(capsys, monkeypatch):
    monkeypatch.setattr("dpw.methods.catalog.entry_points", lambda **_: ["one of another package"])
    code, out, _ = dpw(capsys, "methods")
    assert code == 0
    assert "zero-shot" in out


def test_commands_without_a_model_load_no_torch(tmp_path):
    """They answer within a second because torch, which takes longer than that, is not loaded."""
    for line in ("methods dpw", "tasks x", "compare x", "report x", "benchmarks"):
        words = line.split()
        script = (
            f"import sys; sys.argv = ['dpw', *{words!r}]\nfrom dpw.cli import main\n"
            "try: main()\nexcept SystemExit: pass\nassert 'torch' not in sys.modules"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, f"{words}: {done.stderr.decode()[-300:]}"
