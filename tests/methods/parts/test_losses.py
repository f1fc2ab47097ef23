"""Distillation: what the teacher says."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from dpw.methods.parts.losses import distillation


@given(st.integers(0, 1000), st.floats(0.5, 4))
@settings(max_examples=20, deadline=None)
def test_distillation_is_least_at_the_teacher_where_it_is_its_entropy(seed, temperature):
    teacher, other = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(seed))
    least = distillation(teacher, teacher, temperature)
    share = F.softmax(teacher / temperature, dim=-1)
    entropy = -(share * share.log()).sum(dim=-1).mean()
    torch.testing.assert_close(least, temperature**2 * entropy)
    assert distillation(teacher, other, temperature) >= least
