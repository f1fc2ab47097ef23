"""Accuracy by prefix length."""

from dpw import analysis
from dpw.runs import results
from dpw.runs.gathering import read_runs


def test_points_over_prefix_lengths_come_from_results(dpw_run, diki_run):
    data = analysis.accuracy_by_prefix_length(read_runs([dpw_run, diki_run]))
    content = results.read(dpw_run)
    (point,) = data["dpw"]
    assert (point.length, point.parameters, point.mean) == (
        2,
        content["parameters"],
        content["metrics"]["mean"],
    )
    assert set(data) == {"dpw", "diki"}
