"""A finished run opened for looking into."""

import itertools

import torch
from hypothesis import given
from hypothesis import strategies as st

from dpw.analysis.subject import spread_rows
from tests.helpers.checks import nonempty


@given(st.integers(1, 1000), st.integers(1, 1000))
def test_rows_are_spread_in_order_and_never_twice(size, count):
    rows = spread_rows(size, count)
    assert len(rows) == min(size, count)
    assert all(a < b for a, b in itertools.pairwise(rows))
    assert 0 <= rows[0] <= rows[-1] < size


def test_the_model_after_some_tasks_is_the_model_as_it_was(subject):
    early = subject.after(2)
    assert early.method.task_names == subject.method.task_names[:2]
    for name, tensor in nonempty(early.method.task_state(1).items()):
        assert torch.equal(tensor, subject.method.task_state(1)[name])
