"""Runs side by side: seeds averaged, conditions never mixed, published figures marked with their protocol."""

import copy
import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from dpw.benchmarks import get_benchmark, list_benchmarks
from dpw.cli import app
from dpw.engine.metrics import summarize
from dpw.errors import InputError
from dpw.methods import METHODS, PRESETS
from dpw.methods.dpw.ablations import presets
from dpw.report.comparison import FORMATS, count
from dpw.runs.compare import compare
from dpw.runs.gathering import METRICS, Spread, find_runs, read_runs, sections, spread
from dpw.runs.published import ABLATIONS, FIGURES, figures_of
from dpw.storage import files

ORDER = [source.name for source in get_benchmark("mtil").tasks]
RESULT = {
    "format": files.FORMAT,
    "kind": "dpw-results",
    "method": "dpw",
    "status": "from the paper and its code",
    "preset": "default",
    "benchmark": "mtil",
    "setting": "task-incremental",
    "protocol": "coop",
    "decision": "per-image",
    "merge_equal_names": False,
    "shots": None,
    "model": "clip",
    "seed": 1,
    "tasks": ORDER,
    "metrics": summarize([[50.0] * 11] * 11, [40.0] * 11),
    "parameters": 30_800_000,
    "settings": {"settings": {}},
    "method_config": {"seed": 1},
}


def finished(folder, **changes):
    """Write the results of a run with some values changed."""
    content = copy.deepcopy(RESULT)
    content["metrics"] |= changes.pop("metrics", {})
    content |= changes
    files.write_json(folder / "results.json", content)
    return folder


def test_seeds_of_one_method_are_averaged(tmp_path):
    for seed, last in ((1, 80.0), (2, 82.0), (3, 84.0)):
        finished(tmp_path / f"dpw-{seed}", seed=seed, metrics={"last": last})
    (table,) = compare([tmp_path], published=False)
    (row,) = table.rows
    assert row.seeds == (1, 2, 3)
    assert row.values["last"] == Spread(82.0, 2.0)
    assert row.values["avg"] == Spread(50.0, 0.0)


def test_one_seed_has_no_deviation_and_a_missing_metric_no_mean(tmp_path):
    finished(tmp_path / "l2p", method="l2p", metrics={"transfer": None})
    (table,) = compare([tmp_path / "l2p"], published=False)
    assert table.rows[0].values["transfer"] is None
    assert table.rows[0].values["last"] == Spread(50.0)
    assert "| - | 50.0 |" in FORMATS["markdown"]([table])


def test_presets_settings_and_shared_decisions_make_rows_of_their_own(tmp_path):
    finished(tmp_path / "a")
    finished(tmp_path / "b", preset="official", decision="batch-vote")
    finished(tmp_path / "c", settings={"settings": {"prefix_length": 4}})
    (table,) = compare([tmp_path], published=False)
    assert [row.label for row in table.rows] == [
        "dpw",
        "dpw (official) [batch-vote]",
        "dpw {prefix_length=4}",
    ]
    assert any("share one decision" in note for note in table.notes)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"protocol": "zscl"}, "protocol"),
        ({"benchmark": "mtil-order2"}, "benchmark"),
        ({"model": "other"}, "CLIP"),
        ({"shots": 16}, "shots"),
    ],
)
def test_runs_under_different_conditions_get_tables_of_their_own_and_a_note(tmp_path, changes, named):
    finished(tmp_path / "a")
    finished(tmp_path / "b", **changes)
    tables = compare([tmp_path])
    assert len(tables) == 2
    assert all(f"differ in {named}:" in table.notes[-1] for table in tables)


def test_published_rows_are_marked_with_source_and_protocol(tmp_path):
    (table,) = compare([finished(tmp_path / "a")])
    printed = [row for row in table.rows if row.published]
    assert len(printed) == len(figures_of("mtil"))
    assert all(row.source.startswith("published: ") for row in printed)
    assert {row.protocol for row in printed} == {"zscl", "coop"}
    assert any("another protocol than coop do not compare" in note for note in table.notes)


def test_published_rows_do_not_stand_beside_another_form_of_the_benchmark(tmp_path):
    (table,) = compare([finished(tmp_path / "a", tasks=ORDER[:3])])
    assert len(table.rows) == 1
    assert table.notes == ("No figures are published for mtil in this form.",)


def test_an_ablation_stands_beside_its_own_published_row(tmp_path):
    finished(tmp_path / "a", preset="ablation/sigmoid")
    (table,) = compare([tmp_path / "a"])
    labels = [row.label for row in table.rows if row.published]
    assert "dpw (ablation/sigmoid)" in labels
    assert "dpw (ablation/softmax)" not in labels


def test_the_same_seed_twice_is_refused(tmp_path):
    finished(tmp_path / "a")
    finished(tmp_path / "b")
    for gather in (compare, lambda paths: sections(read_runs(paths))):
        with pytest.raises(InputError, match="same seed 1") as caught:
            gather([tmp_path])
        assert str(tmp_path / "a") in str(caught.value)
        assert str(tmp_path / "b") in str(caught.value)
    assert find_runs([tmp_path / "a", tmp_path / "a"]) == [tmp_path / "a"]


def test_the_command_writes_every_format(tmp_path):
    finished(tmp_path / "a")
    finished(tmp_path / "b", seed=2, metrics={"last": 52.0})
    written = {}
    for form in FORMATS:
        result = CliRunner().invoke(app, ["compare", str(tmp_path), "--format", form])
        assert result.exit_code == 0, result.output
        written[form] = result.output
    assert "51.0 ± 1.4" in written["text"]
    assert "| dpw | measured | coop | 2 |" in written["markdown"]
    assert r"51.0 $\pm$ 1.4" in written["latex"]
    rows = list(csv.DictReader(io.StringIO(written["csv"])))
    assert (rows[0]["seeds"], rows[0]["last"], rows[0]["model"]) == ("1 2", "51.0", "clip")
    assert rows[-1]["source"].startswith("published")


def test_a_folder_without_a_finished_run_is_refused_in_one_sentence(tmp_path):
    result = CliRunner().invoke(app, ["compare", str(tmp_path)])
    assert isinstance(result.exception, InputError)
    (tmp_path / "run.json").write_text(json.dumps({}))
    result = CliRunner().invoke(app, ["compare", str(tmp_path)])
    assert "not finished" in str(result.exception)


def test_every_metric_that_tables_show_is_one_that_a_run_has():
    assert set(METRICS) <= set(RESULT["metrics"])


@given(st.lists(st.floats(0, 100), min_size=1, max_size=5))
def test_a_mean_lies_among_its_values(values):
    found = spread(values)
    assert min(values) - 1e-9 <= found.mean <= max(values) + 1e-9
    assert (found.deviation is None) == (len(values) == 1)


def test_counts_are_readable():
    assert [count(n) for n in (None, 0, 512, 1_500, 30_800_000)] == ["-", "0", "512", "1.5 k", "30.8 M"]


# ----------------------------------------------------------------------------------- the published figures


def test_published_figures_name_methods_presets_and_benchmarks_that_exist():
    benchmarks = {benchmark.name for benchmark in list_benchmarks()}
    for row in (*FIGURES, *ABLATIONS):
        assert row.method in METHODS
        assert row.preset in PRESETS[row.method]
        assert row.benchmark in benchmarks
        assert row.protocol in ("coop", "zscl")
    assert {row.preset for row in ABLATIONS} <= set(presets())


def test_published_means_are_those_of_the_paper():
    """The paper's "Mean" column, which is not in the data, checks the three numbers beside it."""
    printed = {"zscl": 75.7, "diki": 76.7, "moe-adapters": 76.9, "gift": 77.5}
    printed |= {"dpw-reduced": 78.7, "dpw": 79.3}
    second = {"lwf": 62.4, "icarl": 59.8, "wise-ft": 61.6, "zscl": 74.0, "diki": 74.8, "moe-adapters": 74.4}
    second |= {"gift": 75.6, "dpw-reduced": 76.2, "dpw": 76.7}
    incremental = {"zscl": 72.5, "moe-adapters": 67.4, "coleclip": 74.1, "dpeclip": 76.6}
    incremental |= {"dpw-reduced": 77.9, "dpw": 78.5}
    few = {"diki": 73.3, "moe-adapters": 75.6, "dpw": 76.4}
    expected = {"mtil": printed, "mtil-order2": second, "odcl-cil": incremental, "mtil-fs": few}
    for benchmark, means in expected.items():
        rows = {row.method: row for row in figures_of(benchmark) if row.preset == "default"}
        for method, value in means.items():
            assert rows[method].mean == pytest.approx(value, abs=0.11), (benchmark, method)
