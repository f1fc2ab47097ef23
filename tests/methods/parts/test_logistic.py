"""Logistic regression: a minimum of its objective, found the same way every time."""

import torch
from torch.nn import functional as F

from dpw.methods.parts.logistic import fit_logistic


def some(n: int = 30) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(n) % 3
    return torch.randn(n, 5, generator=generator) + 2 * F.one_hot(labels, 5), labels


def test_the_gradient_of_the_objective_vanishes():
    features, labels = some()
    weight, bias = (part.requires_grad_() for part in fit_logistic(features, labels, 3, 0.7, 300))
    fit = F.cross_entropy(features.double() @ weight.T + bias, labels, reduction="sum")
    gradients = torch.autograd.grad(fit + (weight**2).sum() / (2 * 0.7), [weight, bias])
    assert max(float(gradient.abs().max()) for gradient in gradients) < 1e-4


def test_a_stronger_penalty_gives_smaller_weights():
    features, labels = some()
    sizes = [float(fit_logistic(features, labels, 3, one, 100)[0].norm()) for one in (0.01, 0.1, 1.0)]
    assert sizes == sorted(sizes)


def test_the_same_images_give_the_same_numbers():
    first, second = (fit_logistic(*some(), 3, 1.0, 50) for _ in range(2))
    assert torch.equal(first[0], second[0]) and torch.equal(first[1], second[1])
