"""The sentence on top of a report: who is best, by how much, and how sure that is."""

from pathlib import Path

import pytest

from dpw.report.findings import finding
from dpw.runs.gathering import Group, Run, Section


def group(name, means, seeds=None):
    """A method with a mean accuracy for each seed."""
    seeds = range(len(means)) if seeds is None else seeds
    runs = [
        Run(Path(name), {"seed": seed, "metrics": {"mean": mean, "last": (mean or 69.0) + 1}}, ())
        for seed, mean in zip(seeds, means, strict=True)
    ]
    return Group(name, name, tuple(runs))


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ([group("dpw", [60.0, 61.0]), group("diki", [50.0, 51.0])], "more than twice the spread"),
        ([group("dpw", [60.0, 62.0]), group("diki", [58.0, 60.0])], "within the spread over seeds (± 2.0)"),
        ([group("dpw", [60.0, 62.0]), group("diki", [57.0, 59.0])], "but less than twice"),
        ([group("dpw", [60.0]), group("diki", [50.0])], "how much of it is luck"),
        ([group("dpw", [60.0, 61.0]), group("diki", [50.0, 51.0], [5, 6])], "not run with the same seeds"),
        ([group("dpw", [60.0, 61.0])], "dpw reaches 60.5 ± 0.7 % in the mean of Transfer, Avg and Last"),
        # Without zero-shot ability a method has no such mean: Last decides for all.
        ([group("dpw", [60.0]), group("l2p", [None])], "l2p is best of 2 with 70.0 % in Last, 9.0 points"),
    ],
)
def test_what_is_said(groups, said):
    assert said in finding(Section(tuple(groups)))


def test_best_second_and_seeds_are_named():
    section = Section((group("diki", [50.0, 51.0]), group("dpw", [60.0, 61.0]), group("lwf", [40.0, 41.0])))
    assert finding(section).startswith(
        "dpw is best of 3 with 60.5 ± 0.7 % in the mean of Transfer, Avg and Last, "
        "10.0 points above diki (seeds 0, 1)."
    )
