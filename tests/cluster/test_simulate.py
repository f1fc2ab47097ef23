"""The simulated schedule: bounds that any schedule keeps, and cases that can be counted by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpw.cluster.simulate import RunCost, simulate

seconds = st.floats(0.1, 100)
parts = st.lists(seconds, min_size=1, max_size=4).map(tuple)
costs = st.lists(st.builds(RunCost, parts, parts, st.booleans(), seconds), min_size=1, max_size=5)


def longest(run: RunCost) -> float:
    """What no number of workers can make shorter."""
    return max(run.learn) + max(run.measure) + run.around if run.apart else run.total


@given(costs, st.integers(1, 8))
def test_no_schedule_beats_its_bounds(runs, workers):
    found, work = simulate(runs, workers), sum(run.total for run in runs)
    bound = max(work / workers, *map(longest, runs), 0)
    assert bound * (1 - 1e-9) <= found.seconds <= work * (1 + 1e-9)
    assert found.busy == pytest.approx(work / found.seconds / workers)


@given(costs)
def test_one_worker_does_everything_one_after_the_other(runs):
    assert simulate(runs, 1).seconds == pytest.approx(sum(run.total for run in runs))


@given(costs)
def test_with_workers_enough_the_longest_chain_is_left(runs):
    assert simulate(runs, 1000).seconds == pytest.approx(max(map(longest, runs)))


def test_overhead_counts_for_every_part():
    run = RunCost((60.0, 60.0), (30.0,), apart=True, around=10.0)
    assert simulate([run], 1, per_part=1.0).seconds == 164.0
