"""Maps of scores."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from dpw import analysis
from dpw.analysis.score_maps import stretch
from dpw.analysis.subject import open_prefixes


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=9))
def test_maps_are_stretched_to_their_own_range(values):
    row = stretch(torch.tensor([values], dtype=torch.float64))
    assert row.min() == 0
    assert 0 <= row.max() <= 1


def test_score_maps_set_attention_beside_repa(subject, diki_run):
    alone = analysis.score_maps(subject, tasks=["birds", "metals"])
    assert alone.repa.shape == alone.attention.shape == (2, 2, 2)
    keys = open_prefixes(diki_run, subject)
    beside = analysis.score_maps(subject, tasks=["birds", "metals"], keys=keys)
    assert beside.attention_from == "DIKI's prefixes"
    assert torch.equal(alone.repa, beside.repa)
    assert not torch.equal(alone.attention, beside.attention)
