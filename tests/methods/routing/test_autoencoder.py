"""Autoencoders of single tasks."""

import torch

from dpw.methods.routing.autoencoder import (
    Autoencoder,
    fit_autoencoder,
)
from tests.helpers.checks import nonempty


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_an_autoencoder_repeats_its_own_domain_better_than_another():
    bright, dark = (torch.sigmoid(sign + 0.3 * torch.randn(40, 12, generator=seeded(5))) for sign in (1, -1))
    model = Autoencoder(12, 4, seeded())
    before = model.error(bright).mean()
    fit_autoencoder(model, bright, seeded(), iterations=100, rate=0.01)
    assert model.error(bright).mean() < before
    assert model.error(bright).mean() < model.error(dark).mean()
    assert not any(tensor.requires_grad for tensor in nonempty(model.parameters()))


def test_an_autoencoder_depends_on_its_generator_only():
    models = [Autoencoder(12, 4, seeded(1)) for _ in range(2)]
    data = torch.rand(9, 12, generator=seeded(2))
    for index, model in enumerate(models):
        torch.manual_seed(index)
        fit_autoencoder(model, data, seeded(3), iterations=5, rate=0.01)
    assert all(torch.equal(a, b) for a, b in nonempty(zip(*(m.parameters() for m in models), strict=True)))


def test_the_published_autoencoder_has_the_published_size():
    with torch.device("meta"):
        model = Autoencoder(256 * 13 * 13, 100)
    assert sum(tensor.numel() for tensor in model.parameters()) == 8_696_164
