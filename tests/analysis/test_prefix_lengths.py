"""Accuracy by prefix length."""

from dpw import analysis
from dpw.runs.gathering import read_runs
from dpw.storage.run_folder import RunFolder


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
