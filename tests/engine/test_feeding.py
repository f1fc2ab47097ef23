"""Batches shared by several processes: every image once, and the mean of the shares is the mean of all."""

import torch
from hypothesis import given
from hypothesis import strategies as st

import dpw.functional as paper
from dpw.engine.feeding import Share


@given(st.integers(1, 40), st.integers(1, 9))
def test_shares_hold_every_image_once_and_weigh_as_many(batch, processes):
    shares = [Share.of(batch, process, processes) for process in range(processes)]
    counted = [row for one in shares if one.weight for row in range(one.start, one.stop)]
    assert counted == list(range(batch))
    assert all(one.start < one.stop <= batch for one in shares), "nobody has nothing to do in a step"
    losses = torch.arange(float(batch), dtype=torch.float64)
    mean = sum(one.weight * losses[one.start : one.stop].mean() for one in shares) / processes
    assert torch.isclose(mean, losses.mean())


def test_one_process_has_all_of_a_batch():
    assert Share.of(7, 0, 1) == (0, 7, 7, 1.0)


def test_what_is_dropped_does_not_depend_on_who_computes_it():
    x, down, up = torch.randn(5, 3, 8), torch.randn(8, 4), torch.randn(4, 8)
    found = []
    for share in (None, (0, 2, 5), (2, 5, 5)):
        torch.manual_seed(3)
        rows = x if share is None else x[share[0] : share[1]]
        found.append(paper.adapter_output(rows, down, up, torch.zeros(8), 0.1, 0.5, share))
    torch.testing.assert_close(torch.cat(found[1:]), found[0])
    assert (found[0] != paper.adapter_output(x, down, up, torch.zeros(8), 0.1)).any(), "something was dropped"
