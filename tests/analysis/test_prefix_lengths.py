"""Accuracy by prefix length."""

from dpw import analysis
from dpw.runs.gathering import read_runs
from dpw.storage.run_folder import RunFolder
from tests.helpers.finished_runs import finished


def test_points_over_prefix_lengths_come_from_results(dpw_run, diki_run):
    data = analysis.accuracy_by_prefix_length(read_runs([dpw_run, diki_run]))
    content = RunFolder(dpw_run).read_results()
    (point,) = data["dpw"]
    assert (point.length, point.parameters, point.mean) == (
        2,
        content["parameters"],
        content["metrics"]["mean"],
    )
    assert set(data) == {"dpw", "diki"}


def test_runs_that_differ_in_more_than_the_length_are_no_points(tmp_path):
    chosen = [("a", 4, "residual"), ("b", 8, "residual"), ("c", 8, "uniform")]
    for name, length, weight in chosen:
        finished(tmp_path / name, method_config={"prefix_length": length, "adapter_weight": weight})
    data = analysis.accuracy_by_prefix_length(read_runs([tmp_path / name for name, _, _ in chosen]))
    assert [point.length for point in data["dpw"]] == [4, 8]
