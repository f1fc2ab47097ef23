"""What the towers compute, and its gradients by hand, are those of autograd over the paper's equations."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpw import functional as paper
from dpw.methods.dpw import quick
from dpw.methods.dpw.quick import _Residual, trained_residual

shapes = st.tuples(st.integers(1, 3), st.sampled_from([1, 2, 4]), st.integers(1, 6), st.integers(1, 8))


def drawn(seed, batch, heads, tokens, prefixes, scale=1.0, dtype=torch.float64):
    """Scores, prefix values and E(X) of random numbers."""
    generator = torch.Generator().manual_seed(seed)
    sizes = ((batch, tokens, heads, prefixes), (prefixes, heads * 4), (batch, tokens, heads * 4))
    scores, values, adapted = (torch.randn(size, generator=generator, dtype=dtype) for size in sizes)
    return [one.requires_grad_() for one in ((scores * scale).transpose(1, 2), values, adapted)]


def both(inputs):
    """Value and gradients by hand, and as autograd finds them."""
    found = []
    for way in (trained_residual, paper.weighted_residual):
        value = way(*inputs)
        outer = torch.linspace(-1, 1, value.numel(), dtype=value.dtype).view_as(value)
        found.append([value.detach(), *torch.autograd.grad(value, inputs, outer)])
    return found


@given(shapes, st.integers(0, 10**6), st.floats(0.1, 8))
def test_value_and_gradients_are_those_of_the_equation(shape, seed, scale):
    torch.testing.assert_close(*both(drawn(seed, *shape, scale=scale)), rtol=1e-9, atol=1e-9)


def test_the_gradient_is_that_of_small_differences():
    assert torch.autograd.gradcheck(_Residual.apply, drawn(0, 2, 2, 3, 4))


def test_scores_that_lie_head_by_head_as_those_of_the_reduced_variant():
    scores, values, adapted = drawn(1, 2, 4, 5, 3)
    by_head = scores.detach().contiguous().requires_grad_()
    torch.testing.assert_close(*both([by_head, values, adapted]))


def test_inputs_that_do_not_lie_in_order():
    scores, values, adapted = drawn(6, 2, 2, 3, 4)
    turned = [one.detach().transpose(0, 1).contiguous().transpose(0, 1) for one in (values, adapted)]
    torch.testing.assert_close(*both([scores, *(one.requires_grad_() for one in turned)]))


def test_where_the_shares_sum_to_exactly_one():
    _, values, adapted = drawn(2, 1, 1, 1, 1)
    scores = torch.full((1, 1, 1, 1), math.inf, dtype=torch.float64, requires_grad=True)
    _, expected = both([scores, values, adapted])
    torch.testing.assert_close(*both([scores, values, adapted]))
    assert expected[0].equal(values.detach().view(1, 1, -1)), "the adapter has no say yet"


def test_gradients_that_come_in_without_order_and_inputs_that_want_none():
    scores, values, adapted = drawn(3, 2, 2, 3, 4)
    values.requires_grad_(requires_grad=False)
    value = trained_residual(scores, values, adapted)
    outer = torch.randn(value.shape[::-1], dtype=value.dtype).permute(2, 1, 0)
    expected = torch.autograd.grad(paper.weighted_residual(scores, values, adapted), (scores, adapted), outer)
    torch.testing.assert_close(torch.autograd.grad(value, (scores, adapted), outer), expected)


def test_less_is_kept_for_the_backward_pass_than_by_autograd():
    inputs, kept = drawn(4, 4, 4, 50, 8), {}
    for way in (trained_residual, paper.weighted_residual):
        memory = {}
        with torch.autograd.graph.saved_tensors_hooks(
            lambda one, memory=memory: memory.update({one.data_ptr(): one.numel()}) or one, lambda one: one
        ):
            way(*inputs)
        kept[way] = sum(memory.values())
    assert kept[trained_residual] <= 0.8 * kept[paper.weighted_residual]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_lower_precision_is_left_to_autograd(dtype):
    inputs = drawn(5, 1, 2, 3, 4, dtype=torch.float32)
    with torch.autocast("cpu", dtype):
        value = trained_residual(*inputs)
    assert "_Residual" not in value.grad_fn.name()
    assert "_Residual" in trained_residual(*inputs).grad_fn.name()


@pytest.mark.parametrize("tokens", [5, 400])
@pytest.mark.parametrize("rows", [64, 16], ids=["all of a token", "the own slice"])
def test_scores_and_adapter_of_few_and_of_many_tokens(tokens, rows):
    generator = torch.Generator().manual_seed(7)
    sizes = ((3, tokens, 64), (4, rows, 8), (4, tokens + 1, 8), (64, 32), (32, 64), (64,))
    x, weight, bias, *adapter = inputs = [torch.randn(size, generator=generator) for size in sizes]
    for one in inputs:
        one.requires_grad_()
    found = []
    for way in (quick, paper):
        values = way.repa_scores(x, weight, bias), way.adapter_output(x, *adapter, 0.1)
        outer = [torch.linspace(-1, 1, one.numel()).view_as(one) for one in values]
        found.append([*values, *torch.autograd.grad(values, inputs, outer)])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)
