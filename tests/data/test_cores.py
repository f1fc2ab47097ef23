"""Cores that may be used, and this process's share of them."""

import os

import pytest

from dpw.data.cores import own_threads, usable_cores


@pytest.mark.parametrize(("told", "most"), [("1", 1), ("1,2", 1), ("1000", 10**6), ("", 10**6), ("x", 10**6)])
def test_the_share_is_never_more_than_there_is(monkeypatch, told, most):
    monkeypatch.setenv("OMP_NUM_THREADS", told)
    assert 1 <= own_threads() <= min(usable_cores(), most)
    assert usable_cores() <= (os.cpu_count() or 1)
