"""Class-incremental logits keep the order of exact arithmetic, however small the weights."""

from decimal import Decimal, getcontext

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpw.methods.routing.ranking import weighted_logits

SCALE = torch.tensor(100.0)
cosine = st.floats(-1, 1, width=32)
log_weight = st.floats(-100_000, 0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(cosine, log_weight), min_size=2, max_size=6))
def test_the_order_is_that_of_sixty_digits(pairs):
    getcontext().prec = 60
    exact = [Decimal(value) * Decimal(weight).exp() for value, weight in pairs]
    values = torch.tensor([[value for value, _ in pairs]])
    weights = torch.tensor([[weight for _, weight in pairs]], dtype=torch.float64)
    best = int(weighted_logits(values, weights, SCALE).argmax())
    assert exact[best] >= max(exact) * (1 - Decimal("1e-5")) or exact[best] == max(exact)


def test_ordinary_weights_give_the_published_logits():
    values, weights = torch.tensor([[0.3, 0.2, -0.1]]), torch.tensor([[0.5, 0.9, 0.9]], dtype=torch.float64)
    found = weighted_logits(values, weights.log(), SCALE)
    torch.testing.assert_close(found, SCALE * values * weights.float())


def test_an_image_far_from_every_task_is_never_given_the_first_class_of_the_list():
    values = torch.tensor([[0.10, 0.20, 0.30]])
    weights = torch.tensor([[-900.0, -800.0, -800.0]], dtype=torch.float64)
    found = weighted_logits(values, weights, SCALE)
    assert found.argsort(descending=True).tolist() == [[2, 1, 0]]
    torch.testing.assert_close(found.softmax(dim=1), torch.full((1, 3), 1 / 3))
