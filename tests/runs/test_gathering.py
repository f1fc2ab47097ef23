"""Means and deviations over seeds."""

from hypothesis import given
from hypothesis import strategies as st

from dpw.runs.gathering import spread


@given(st.lists(st.floats(0, 100), min_size=1, max_size=5))
def test_a_mean_lies_among_its_values(values):
    found = spread(values)
    assert min(values) - 1e-9 <= found.mean <= max(values) + 1e-9
    assert (found.deviation is None) == (len(values) == 1)
