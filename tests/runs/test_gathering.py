"""Finding runs; means and deviations over seeds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpw.errors import InputError
from dpw.runs.gathering import find_runs, spread


@given(st.lists(st.floats(0, 100), min_size=1, max_size=5))
def test_a_mean_lies_among_its_values(values):
    found = spread(values)
    assert min(values) - 1e-9 <= found.mean <= max(values) + 1e-9
    assert (found.deviation is None) == (len(values) == 1)


def test_runs_are_found_one_and_two_folders_down(dpw_run, tmp_path):
    (tmp_path / "runs" / "mini").mkdir(parents=True)
    (tmp_path / "runs" / "mini" / "a").symlink_to(dpw_run)
    assert find_runs([tmp_path / "runs"]) == find_runs([tmp_path / "runs" / "mini"])
    assert find_runs([tmp_path / "runs"]) == [tmp_path / "runs" / "mini" / "a"]


def test_runs_deeper_down_are_not_looked_for(dpw_run, tmp_path):
    (tmp_path / "one" / "two").mkdir(parents=True)
    (tmp_path / "one" / "two" / "a").symlink_to(dpw_run)
    with pytest.raises(InputError, match="holds no finished run"):
        find_runs([tmp_path])
