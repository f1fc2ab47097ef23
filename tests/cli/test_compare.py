"""`dpw compare` on the command line."""

import csv
import io
import json

from typer.testing import CliRunner

from dpw.benchmarks import get_benchmark
from dpw.cli import app
from dpw.errors import InputError
from dpw.report.comparison import FORMATS
from tests.helpers.checks import nonempty
from tests.helpers.finished_runs import finished


def test_the_command_writes_every_format(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    finished(tmp_path / "a")
    finished(tmp_path / "b", seed=2, metrics={"last": 52.0})
    written = {}
    for form in nonempty(FORMATS):
        result = CliRunner().invoke(app, ["compare", str(tmp_path), "--format", form])
        assert result.exit_code == 0, result.output
        written[form] = result.output
    assert "51.0 ± 1.4" in written["text"]
    assert "| dpw | measured | coop | 1,2 |" in written["markdown"]
    assert r"51.0 $\pm$ 1.4" in written["latex"]
    rows = list(csv.DictReader(io.StringIO(written["csv"])))
    assert (rows[0]["seeds"], rows[0]["last"], rows[0]["model"]) == ("1 2", "51.0", "clip")
    assert rows[-1]["source"].startswith("published")


def test_the_table_fits_a_terminal_of_80_columns(tmp_path, monkeypatch):
    finished(tmp_path / "a")
    finished(tmp_path / "b", seed=2, metrics={"last": 52.0})
    monkeypatch.setenv("COLUMNS", "80")
    lines = CliRunner().invoke(app, ["compare", str(tmp_path)]).output.splitlines()
    assert max(map(len, lines[1:])) <= 80, "the title alone names the CLIP's folder"
    head, first = lines[1].split(), lines[2].split()
    assert (head[3], first[3]) == ("Last", "51.0±1.4")
    assert "seeds 1,2: dpw" in lines
    assert "protocol coop: dpw, diki *, dpw-reduced *, dpw *" in lines
    monkeypatch.setenv("COLUMNS", "200")
    wide = CliRunner().invoke(app, ["compare", str(tmp_path)]).output
    assert "51.0 ± 1.4" in wide.splitlines()[2]


def test_a_folder_without_a_finished_run_is_refused_in_one_sentence(tmp_path):
    result = CliRunner().invoke(app, ["compare", str(tmp_path)])
    assert isinstance(result.exception, InputError)
    (tmp_path / "run.json").write_text(json.dumps({}))
    result = CliRunner().invoke(app, ["compare", str(tmp_path)])
    assert "not finished" in str(result.exception)


def test_every_dataset_stands_beside_its_published_figure(tmp_path):
    finished(tmp_path / "a")
    written = {}
    for form in nonempty(FORMATS):
        result = CliRunner().invoke(app, ["compare", str(tmp_path / "a"), "--by-dataset", "--format", form])
        assert result.exit_code == 0, result.output
        written[form] = result.output
    rows = list(csv.DictReader(io.StringIO(written["csv"])))
    own = {row["From"]: row for row in rows if row["Method"] == "dpw" and row["Metric"] == "Last"}
    assert own["this run, protocol coop"]["aircraft"] == "50.0"
    assert own["published, protocol coop"]["aircraft"] == "60.5"
    assert own["difference"]["aircraft"] == "-10.5"
    assert float(own["difference"]["average"]) == -38.3
    zscl = [row for row in rows if row["Method"] == "zscl" and row["Metric"] == "Avg"]
    assert [row["From"] for row in zscl] == ["published, protocol zscl"]
    assert "| dpw | Last | difference | -10.5 |" in written["markdown"]
    assert "difference" in written["text"]
    assert written["text"].startswith("Dataset by dataset: mtil (task-incremental), protocol coop, CLIP clip")
    assert r"\begin{tabular}{lll" in written["latex"]


def test_a_difference_between_two_protocols_is_marked(tmp_path):
    finished(tmp_path / "a", method="zscl")
    result = CliRunner().invoke(app, ["compare", str(tmp_path / "a"), "--by-dataset", "--format", "csv"])
    rows = [row for row in csv.DictReader(io.StringIO(result.output)) if row["Metric"] == "Last"]
    own = [row["From"] for row in rows if row["Method"] == "zscl"]
    assert own == [
        "this run, protocol coop",
        "published, protocol zscl",
        "difference, between two protocols",
    ]


def test_presumed_and_replicated_figures_are_marked_dataset_by_dataset(tmp_path):
    for benchmark, words in (
        ("odcl-cil-merged", "dpeclip: equal names are presumably merged"),
        ("mtil-fs", "moe-adapters: replicated by the DPW authors"),
    ):
        known = get_benchmark(benchmark)
        changed = {"setting": known.setting, "shots": known.shots, "protocol": "zscl"}
        finished(tmp_path / benchmark, benchmark=benchmark, **changed)
        result = CliRunner().invoke(app, ["compare", str(tmp_path / benchmark), "--by-dataset"])
        assert words in result.output


def test_an_ablation_is_not_set_beside_the_method_itself(tmp_path):
    finished(tmp_path / "a", preset="ablation/sigmoid")
    result = CliRunner().invoke(app, ["compare", str(tmp_path / "a"), "--by-dataset"])
    assert "difference" not in result.output.replace("Difference", "")
