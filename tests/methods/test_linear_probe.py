"""The linear probe: the minimum of its objective, and the penalty by validation images."""

import torch
from torch.nn import functional as F

from dpw.methods.linear_probe import fit_probe, probe_logits
from tests.helpers.toy_methods import ToyImages, learn, toy_method, toy_task


def problem(images: int = 60, classes: int = 3):
    generator = torch.Generator().manual_seed(0)
    return F.normalize(torch.randn(images, 8, generator=generator), dim=1), torch.arange(images) % classes


def test_the_gradient_vanishes_at_the_solution():
    features, labels = problem()
    probe = fit_probe(features, labels, 3, strength=10.0, rounds=200)
    weight, bias = (tensor.double().requires_grad_() for tensor in (probe.weight, probe.bias))
    fit = F.cross_entropy(features.double() @ weight.T + bias, labels, reduction="sum")
    (fit + (weight**2).sum() / 20).backward()
    assert weight.grad.abs().max() < 1e-2
    assert bias.grad.abs().max() < 1e-2


def test_a_weaker_penalty_fits_closer():
    features, labels = problem()
    losses = [
        float(F.cross_entropy(probe_logits(fit_probe(features, labels, 3, one, 200), features), labels))
        for one in (0.01, 1000.0)
    ]
    assert losses[1] < losses[0] - 0.1


def test_validation_images_choose_the_penalty():
    task = toy_task("dtd")
    plain = learn(toy_method("linear-probe", strengths=(1e-3, 1e3)), task)
    chosen = toy_method("linear-probe", strengths=(1e-3, 1e3))
    chosen.validation = ToyImages(task.val, chosen.backbone)
    learn(chosen, task)
    lengths = [float(method.bank[0]["head"].weight.norm()) for method in (plain, chosen)]
    strong, weak = (
        float(learn(toy_method("linear-probe", strength=one), task).bank[0]["head"].weight.norm())
        for one in (1e-3, 1e3)
    )
    assert lengths[1] in (strong, weak)
    assert lengths[0] not in (strong, weak)
