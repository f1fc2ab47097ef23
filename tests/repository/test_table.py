"""`make table`: runs of all methods become a page."""

import pytest
from typer.testing import CliRunner

from dpw.cli import app
from tests.helpers.checks import nonempty
from tests.helpers.tools import tool

MARKS = tool("made_section").marks("table")


@pytest.fixture
def table(monkeypatch):
    """The tool; its runs stay in this process, where nothing is imported a second time."""
    module = tool("table")

    def run_here(options):
        names = options.methods.split(",")
        done = [CliRunner().invoke(app, module.command(name, options)) for name in names]
        return [name for name, result in zip(names, done, strict=True) if result.exit_code]

    monkeypatch.setattr(module, "run_all", run_here)
    return module


def arguments(toy, tmp_path, methods, seeds):
    command = ["--benchmark", toy / "toy.yaml", "--methods", methods, "--seeds", seeds]
    command += ["--runs", tmp_path / "runs", "--page", tmp_path / "results.md", "--model", toy / "clip"]
    return [str(part) for part in command]


def test_runs_become_a_page_and_are_not_repeated(table, toy, tmp_path):
    page = tmp_path / "results.md"
    page.write_text("\n".join(MARKS))
    command = arguments(toy, tmp_path, "zero-shot,diki", "1,2")
    table.main([*command, "--set", "training.epochs=1"])
    text = page.read_text()
    assert "4 runs, mean ± sample deviation over the seeds 1,2." in text
    assert "protocol coop" in text
    assert "| method | Transfer |" in text
    assert "| diki {training.epochs=1} | " in text
    written = {path: path.stat().st_mtime_ns for path in nonempty(tmp_path.glob("runs/*/rows/*.json"))}
    table.main([*command, "--set", "training.epochs=1"])
    assert {path: path.stat().st_mtime_ns for path in written} == written


def test_a_failed_method_is_named_and_the_others_are_written(table, toy, tmp_path):
    (tmp_path / "results.md").write_text("\n".join(MARKS))
    with pytest.raises(SystemExit, match="failed and are not in the table: zscl"):
        table.main(arguments(toy, tmp_path, "zero-shot,zscl", "1"))
    text = (tmp_path / "results.md").read_text()
    assert text.count("| zero-shot | ") == 2
    assert "| zero-shot | " in text.split("rank on MTIL")[1]


def test_columns_that_say_the_same_everywhere_are_left_out(table):
    text = "**mini**\n\n| method | source | seeds | Avg |\n|---|---|---:|---:|\n"
    text += "| a | measured | 1,2 | 50 |\n| b | measured | 1 | 50 |\n\n- a note\n"
    narrow = "**mini**\n\n| method | seeds | Avg |\n|---|---:|---:|\n"
    narrow += "| a | 1,2 | 50 |\n| b | 1 | 50 |\n\n- a note\n"
    assert table.without_the_same(text) == narrow
