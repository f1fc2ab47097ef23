"""Runs side by side: seeds averaged, conditions never mixed, published figures marked with their protocol."""

import pytest

from dpw.errors import InputError
from dpw.report.comparison import FORMATS
from dpw.runs.compare import compare
from dpw.runs.gathering import METRICS, Spread, find_runs, read_runs, sections
from dpw.runs.published import figures_of
from tests.helpers.checks import nonempty
from tests.helpers.finished_runs import ORDER, finished


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
    assert all(f"differ in {named}:" in table.notes[-1] for table in nonempty(tables))


def test_published_rows_are_marked_with_source_and_protocol(tmp_path):
    (table,) = compare([finished(tmp_path / "a")])
    printed = [row for row in table.rows if row.published]
    assert len(printed) == len(figures_of("mtil"))
    assert all(row.source.startswith("published: ") for row in nonempty(printed))
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


def test_every_metric_that_tables_show_is_one_that_a_run_has(tmp_path):
    finished(tmp_path / "a")
    (run,) = read_runs([tmp_path / "a"])
    assert set(METRICS) <= set(run.results["metrics"])


def test_rows_under_the_other_rule_for_equal_names_are_pointed_to(tmp_path):
    same = {"setting": "class-incremental", "benchmark": "odcl-cil"}
    (table,) = compare([finished(tmp_path / "a", **same)])
    assert {row.label for row in table.rows if row.published} == {"dpw", "dpw-reduced"}
    assert any("zscl, moe-adapters, coleclip, dpeclip under odcl-cil-merged" in note for note in table.notes)


def test_a_column_says_who_looked_beyond_the_tasks(tmp_path):
    finished(tmp_path / "a", extra_data=False)
    (table,) = compare([tmp_path / "a"])
    said = {(row.label, row.published): row.extra_data for row in table.rows}
    assert said["dpw", False] is False
    assert [said[name, True] for name in ("zscl", "gift", "moe-adapters", "zero-shot")] == [
        *(True, True, False, None)
    ]
    for write in FORMATS.values():
        assert "extra" in write([table]).lower()
    lines = FORMATS["text"]([table]).splitlines()
    assert [line.split()[-1] for line in lines if line.startswith(("zero-shot", "gift", "diki"))] == [
        *("-", "yes", "no")
    ]
