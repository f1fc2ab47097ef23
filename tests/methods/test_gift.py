"""GIFT: the losses on synthetic pairs, the Fisher weights, and where the pairs come from."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpw.data.reference import ReferenceData
from dpw.errors import InputError
from dpw.methods import gift
from tests.helpers.checks import nonempty
from tests.helpers.toy_methods import Trainer, learn, toy_method, toy_task


@given(st.integers(0, 1000), st.floats(-20, 3))
@settings(max_examples=25, deadline=None)
def test_fisher_weights_have_mean_one_however_small_the_gradient(seed, magnitude):
    gradient = torch.randn(6, 5, generator=torch.Generator().manual_seed(seed)) * 10**magnitude
    fisher = gift.relative_fisher(gradient, gradient)
    assert fisher.mean().item() == pytest.approx(1, rel=1e-4)
    assert (fisher >= 0).all()


def test_weights_without_a_gradient_are_hardly_held():
    tensor = torch.ones(3)
    for gradient in (None, torch.zeros(3)):
        assert gift.relative_fisher(gradient, tensor).tolist() == pytest.approx([1e-6] * 3)


def test_equal_prompts_share_their_target():
    expected = [[0.5, 0, 0.5], [0, 1, 0], [0.5, 0, 0.5]]
    assert gift.equal_prompts(["a cat.", "a dog.", "a cat."]).tolist() == expected


def test_a_student_equal_to_its_teacher_feels_no_pull_from_distillation():
    method = learn(toy_method("gift", alignment=0.0), toy_task("aircraft"))
    trainer = Trainer(method, toy_task("dtd"))
    pull = torch.autograd.grad(method.restraint(), list(method.weights().values()))
    assert max(float(gradient.abs().max()) for gradient in pull) < 1e-4
    trainer.run(2)
    pull = torch.autograd.grad(method.restraint(), list(method.weights().values()))
    assert max(float(gradient.abs().max()) for gradient in pull) > 1e-4


def test_the_gradient_is_that_of_the_terms_with_the_fisher_held_fixed():
    method = toy_method("gift")
    Trainer(method, toy_task("aircraft")).run(3)
    plain = toy_method("gift", consolidation=0.0)
    Trainer(plain, toy_task("aircraft"))
    plain.restore(method.snapshot())
    method.step = plain.step = 3
    names, ours = list(method.weights()), list(method.weights().values())
    base = torch.autograd.grad(plain.restraint(), list(plain.weights().values()))
    whole = torch.autograd.grad(method.restraint(), ours)
    start = method.previous_weights()
    for name, tensor, gradient, total in nonempty(zip(names, ours, base, whole, strict=True)):
        fisher = gift.relative_fisher(gradient, tensor)
        expected = gradient + 2 * fisher * (tensor - start[name])
        torch.testing.assert_close(total, expected.detach(), rtol=1e-3, atol=1e-4)


def test_both_towers_are_held():
    method = toy_method("gift")
    Trainer(method, toy_task("aircraft")).run(1)
    for tower in ("text_model", "vision_model"):
        tensors = [tensor for name, tensor in method.weights().items() if name.startswith(tower)]
        gradients = torch.autograd.grad(method.restraint(), tensors, allow_unused=True)
        assert any(gradient is not None and bool(gradient.any()) for gradient in gradients)


def test_says_which_pairs_it_needs():
    method = toy_method("gift")
    method.reference = ReferenceData()
    with pytest.raises(InputError, match="'gift' needs images with prompts: give synthetic=FOLDER"):
        learn(method, toy_task("aircraft"))
