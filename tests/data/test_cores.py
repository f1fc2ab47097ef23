"""Cores that may be used, and this process's share of them."""

import os

import pytest

from dpw.clip.preprocessing import Preprocessing
from dpw.data.cores import THREADS, limit_threads, limited_threads, own_threads, usable_cores
from dpw.data.pixels import PixelCache


@pytest.mark.parametrize(("told", "most"), [("1", 1), ("1,2", 1), ("1000", 10**6), ("", 10**6), ("x", 10**6)])
def test_the_share_is_never_more_than_there_is(monkeypatch, told, most):
    monkeypatch.setenv("OMP_NUM_THREADS", told)
    assert 1 <= own_threads() <= min(usable_cores(), most)
    assert usable_cores() <= (os.cpu_count() or 1)


def test_a_process_that_shares_the_cores_decodes_with_its_share(monkeypatch):
    monkeypatch.setenv(THREADS, "")
    before = own_threads()
    limit_threads(1)
    assert own_threads() == 1
    assert before == usable_cores()
    assert PixelCache(Preprocessing(size=8, crop=(8, 8)), None).workers == 1


@pytest.mark.parametrize("before", [None, "7"])
def test_processes_that_are_begun_meanwhile_are_told_and_later_ones_are_not(monkeypatch, before):
    monkeypatch.delenv(THREADS, raising=False)
    if before is not None:
        monkeypatch.setenv(THREADS, before)
    with limited_threads(3):
        assert os.environ[THREADS] == "3"
    assert os.environ.get(THREADS) == before
