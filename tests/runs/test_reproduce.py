"""A table of the paper as one command: planned, carried out, and set beside the printed one."""

import json

import pytest

from dpw.benchmarks import get_benchmark
from dpw.errors import InputError
from dpw.runs.config import default_model
from dpw.runs.estimate import Measured
from dpw.runs.paper_tables import TABLES
from dpw.runs.reproduce import (
    Estimate,
    PlannedRun,
    Reproduction,
    carry_out,
    result_notes,
    result_rows,
    sizes,
)
from tests.helpers.finished_runs import finished


def silent(_):
    """Hear nothing."""


def test_an_unknown_table_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"no table is called 'tab1'; there are mtil, .* and all"):
        Reproduction("tab1", tmp_path)


def test_runs_are_those_that_dpw_run_would_make(tmp_path):
    plan = Reproduction("condact", tmp_path, data_root="DATA", seeds=(1, 2))
    runs = plan.runs()
    assert len(runs) == 8
    config = runs[2].config
    assert (config.benchmark, config.preset, config.protocol, config.seed) == (
        "mtil",
        "ablation/sigmoid",
        "coop",
        1,
    )
    assert runs[2].folder == tmp_path / "mtil-coop" / "dpw-ablation-sigmoid-seed1"
    assert {run.state for run in runs} == {"missing"}


def test_tables_share_the_runs_they_have_in_common(tmp_path):
    folders = [
        {run.folder for run in Reproduction(name, tmp_path).runs()} for name in ("scores", "heads", "mtil")
    ]
    assert folders[0] & folders[1] & folders[2] == {tmp_path / "mtil-coop" / "dpw-default-seed1"}


def test_rows_can_stand_on_the_settings_of_the_published_code(tmp_path):
    presets = [run.config.preset for run in Reproduction("condact", tmp_path, official=True).runs()]
    assert presets[-2:] == ["official+ablation/conditional-norm", "official"]
    runs = Reproduction("mtil", tmp_path, official=True).runs()
    chosen = {run.line.method: run.config.preset for run in runs}
    assert {name for name, preset in chosen.items() if preset == "official"} == {
        *("moe-adapters", "diki", "dpw", "dpw-reduced")
    }
    assert chosen["zscl"] == "default"


@pytest.mark.parametrize("name", TABLES)
def test_the_embedded_world_stands_in_for_every_benchmark(tmp_path, name):
    """With the same setting, and in another order where the paper has another one."""
    for run in Reproduction(name, tmp_path, mini=True).runs():
        assert (run.config.model, run.lacks, run.missing) == ("mini", [], [])
        asked, stands = get_benchmark(run.line.benchmark), get_benchmark(run.config.benchmark)
        assert stands.setting == asked.setting
        assert default_model(stands.name) == "mini"
        assert (stands.name == "mini-order2") == (asked.name == "mtil-order2")


def test_no_run_is_planned_twice(tmp_path):
    for mini in (True, False):
        folders = [run.folder for run in Reproduction("all", tmp_path, mini=mini).runs()]
        assert len(folders) == len(set(folders))


def test_few_images_on_the_embedded_world(tmp_path):
    few = Reproduction("mtil-fs", tmp_path, mini=True).runs()[0]
    assert few.config.shots == 16
    assert few.folder.parent.name == "mini-16-shot"
    header, first, *_ = result_rows(few.plan, "mtil-fs")
    assert dict(zip(header, first, strict=True))["benchmark"] == "mini, 16-shot"


def test_sizes_are_known_without_data(tmp_path):
    found = sizes(Reproduction("mtil", tmp_path).runs()[0].config)
    assert found["aircraft"] == (100, 3334, 3333)
    few = sizes(Reproduction("mtil-fs", tmp_path).runs()[0].config)
    assert few["eurosat"] == (10, 160, 8100)


def test_datasets_that_are_not_there_are_named(tmp_path):
    (run, *_) = Reproduction("mtil", tmp_path).runs()
    assert len(run.missing) == 11
    (tmp_path / "fgvc_aircraft").mkdir()
    (run, *_) = Reproduction("mtil", tmp_path, data_root=str(tmp_path)).runs()
    assert len(run.missing) == 10
    assert "aircraft" not in run.missing


def test_plain_clip_only_answers_and_others_train(tmp_path):
    first = {run.line.method: run for run in Reproduction("mtil", tmp_path).runs()}
    spent = {
        name: Estimate(run, 100, 10, 5, Measured(step=1.0, image=0.5, memory=None), tasks=3).seconds
        for name, run in first.items()
    }
    assert (spent["zero-shot"], spent["dpw"], spent["zscl"]) == (5.0, 5 + 60.0, 5 + 70.0)


def test_what_is_finished_is_not_done_again_and_what_lacks_data_is_left_out(tmp_path):
    plan, begun, said = Reproduction("mtil", tmp_path), [], []
    done = next(run for run in plan.runs() if run.line.method == "diki")
    finished(done.folder, method="diki")
    carry_out(plan, lambda config, _: begun.append(config.method), said.append)
    assert begun == ["zero-shot", "moe-adapters", "dpw-reduced", "dpw"]
    assert "zscl is left out: it needs --reference-images and --reference-sentences" in said
    given = {"reference_images": "a", "reference_sentences": "b", "synthetic": "c"}
    full, begun = Reproduction("mtil", tmp_path, given=given), []
    carry_out(full, lambda config, _: begun.append((config.method, config.settings)), silent)
    assert ("zscl", {"reference_images": "a", "reference_sentences": "b"}) in begun
    assert ("gift", {"synthetic": "c"}) in begun
    assert ("moe-adapters", {"reference_images": "a"}) in begun


def test_the_table_stands_beside_the_printed_one(tmp_path):
    plan = Reproduction("condact", tmp_path, seeds=(1, 2))
    for seed, last in ((1, 80.0), (2, 82.0)):
        run = PlannedRun(plan, TABLES["condact"].lines[-1], seed)
        finished(run.folder, seed=seed, metrics={"last": last}, seconds={"learn": 1.0, "measure": 2.0})
    header, *rows = result_rows(plan, "condact")
    own = dict(zip(header, rows[-1], strict=True))
    assert (own["seeds"], own["last found"]) == ("2", "81.0 ± 1.4")
    assert (own["last printed"], own["last difference"]) == ("88.3", "-7.3")
    missing = dict(zip(header, rows[0], strict=True))
    assert (missing["seeds"], missing["last found"], missing["last printed"]) == ("0", "-", "86.4")
    json.dumps(rows)


def test_printed_times_stand_beside_the_measured_ones(tmp_path):
    for table, seconds in (("throughput", ["2147", "226", "188", "196"]), ("heads", ["-"] * 4)):
        header, *rows = result_rows(Reproduction(table, tmp_path), table)
        assert [dict(zip(header, row, strict=True))["measuring printed, s"] for row in rows] == seconds


def test_printed_sizes_and_remarks_stand_beside_the_rows(tmp_path):
    header, *rows = result_rows(Reproduction("scores", tmp_path), "scores")
    printed = [dict(zip(header, row, strict=True))["learned printed"] for row in rows]
    assert printed == ["2.7 M", "228.0 M", "30.8 M", "30.8 M"]
    (note,) = result_notes(Reproduction("ablations", tmp_path), "ablations")
    assert note == "dpw none: the same settings as scores-attention, printed differently."
    assert "would say nothing" in result_notes(Reproduction("heads", tmp_path, mini=True), "heads")[0]
