"""`dpw data` on the command line."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from dpw.cli import app
from tests.helpers.checks import nonempty
from tests.helpers.dataset_layouts import BUILDERS, image


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_check_has_a_line_for_each_dataset_and_succeeds_when_all_are_usable(data_root):
    result = run("data", "check", data_root, "--subset", "--images")
    assert result.exit_code == 0, result.output
    assert all(name in result.output for name in nonempty(BUILDERS))
    assert "40 of 48000" in result.output


def test_a_check_fails_when_one_that_was_asked_for_is_not_usable(data_root, tmp_path):
    assert run("data", "check", data_root).exit_code == 1
    BUILDERS["mnist"](tmp_path)
    assert run("data", "check", tmp_path, "--subset").exit_code == 1
    assert run("data", "check", tmp_path, "--subset", "--only", "mnist").exit_code == 0


def test_the_first_problem_is_shown_with_its_remedy(tmp_path):
    result = run("data", "check", tmp_path, "--only", "food")
    assert "missing" in result.output
    assert "dpw data get food" in result.output


def test_a_check_in_json_has_all_problems(data_root):
    result = run("data", "check", data_root, "--json", "--protocol", "zscl")
    reports = json.loads(result.output)["datasets"]
    assert [report["name"] for report in reports] == list(BUILDERS)
    assert reports[0]["counts"] == {"classes": 3, "train": 15, "val": None, "test": 9}
    assert len(reports[0]["problems"]) == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["data", "get", "moon", "--root", "."], "dataset 'moon' is unknown"),
        (["data", "get", "stanfordcars", "--root", "."], "by hand"),
        (["data", "check", ".", "--protocol", "x"], "protocol 'x' is unknown"),
        (["benchmarks", "moon"], "benchmark 'moon' is unknown"),
    ],
)
def test_mistakes_are_one_line_on_stderr_and_exit_code_2(arguments, words, tmp_path):
    command = [sys.executable, "-c", "from dpw.cli import main; main()", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert words in result.stderr


def test_help_imports_neither_torch_nor_transformers():
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom dpw.cli import app\n"
        "CliRunner().invoke(app, ['data', 'check', '--help'])\n"
        "sys.exit(any(name in sys.modules for name in ('torch', 'transformers', 'datasets', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_reading_tasks_needs_no_torch():
    code = "import sys, dpw.data.task, dpw.data.pixels, dpw.benchmarks\nsys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_ones_own_benchmark_is_checked_image_by_image(tmp_path):
    for number in range(10):
        image(tmp_path / "birds" / "owl" / f"{number}.png", number)
    (tmp_path / "birds" / "owl" / "3.png").write_bytes(b"")
    (tmp_path / "mine.yaml").write_text("tasks: [{folder: birds}, {folder: fish}]")
    assert run("data", "check", tmp_path / "mine.yaml", "--only", "birds").exit_code == 0
    result = run("data", "check", tmp_path / "mine.yaml", "--images", "--json")
    assert result.exit_code == 1
    birds, fish = json.loads(result.output)["datasets"]
    assert "3.png is an empty file" in birds["problems"][0]
    assert "fish is not a folder" in fish["problems"][0]
