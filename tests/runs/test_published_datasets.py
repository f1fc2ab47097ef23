"""Figures by dataset agree with the overall ones and name what exists."""

import pytest

from dpw.benchmarks import get_benchmark
from dpw.runs.published import figures_of
from dpw.runs.published_datasets import BY_DATASET
from tests.helpers.checks import nonempty

# Where the printed average is not that of the printed row; the paper's own slips.
SLIPS = {("mtil-fs", "transfer", "moe-adapters"), ("mtil-fs", "transfer", "dpw")}
SLIPS |= {("mtil-order2", "transfer", "dpw-reduced")}


def rows():
    """Every printed row with its benchmark, metric and method."""
    for benchmark, found in nonempty(BY_DATASET.items()):
        for (metric, method), figures in nonempty(found.items()):
            yield benchmark, metric, method, figures


def test_every_row_has_a_value_for_every_dataset():
    for benchmark, metric, _, figures in rows():
        assert len(figures.values) == len(get_benchmark(benchmark).tasks)
        missing = [index for index, value in enumerate(figures.values) if value is None]
        assert missing == ([0] if metric == "transfer" else [])


def test_printed_averages_are_those_of_their_rows():
    wrong = set()
    for benchmark, metric, method, figures in rows():
        known = [value for value in figures.values if value is not None]
        if abs(sum(known) / len(known) - figures.average) > 0.0601:
            wrong.add((benchmark, metric, method))
    assert wrong == SLIPS


def test_the_overall_figures_are_the_printed_averages():
    for benchmark, metric, method, figures in rows():
        (row,) = [r for r in figures_of(benchmark) if r.method == method and r.preset == "default"]
        assert getattr(row, metric) == figures.average


def test_some_cells_as_they_are_printed():
    assert BY_DATASET["mtil"]["last", "dpw"].values[:3] == (60.5, 96.6, 87.9)
    assert BY_DATASET["mtil-order2"]["avg", "gift"].values[-1] == pytest.approx(70.4)
    assert BY_DATASET["odcl-cil-merged"]["last", "moe-adapters"].values[4] == 0.0
    assert BY_DATASET["mtil-fs"]["transfer", "diki"].values[1] == pytest.approx(92.7)
