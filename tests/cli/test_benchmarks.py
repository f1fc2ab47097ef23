"""`dpw benchmarks` on the command line."""

import json

from typer.testing import CliRunner

from dpw.cli import app


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_benchmarks_are_listed_with_their_sizes(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = run("benchmarks").output
    assert "mtil-order2" in text
    assert max(len(line) for line in text.splitlines()) <= 80
    listed = json.loads(run("benchmarks", "--json").output)
    assert {entry["name"]: entry["classes"] for entry in listed}["mtil"] == 1200


def test_one_benchmark_is_shown_with_the_sizes_on_disk(data_root):
    shown = json.loads(run("benchmarks", "mtil", "--data-root", data_root, "--json", "--shots", "1").output)
    assert [task["train"] for task in shown["tasks"]][:2] == [3, 4]
