"""Spherical mixtures find what points were drawn from, and never have more components than points."""

import torch

from dpw.methods.parts.spherical_mixture import fit_mixture


def seed() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_two_clouds_are_found_again():
    generator = seed()
    near = torch.randn(300, 5, generator=generator) * 0.5
    far = torch.randn(100, 5, generator=generator) * 2.0 + 20
    found = fit_mixture(torch.cat([near, far]), 2, seed())
    order = found.share.argsort(descending=True)
    torch.testing.assert_close(found.share[order], torch.tensor([0.75, 0.25]).double(), rtol=0, atol=1e-3)
    torch.testing.assert_close(
        found.variance[order].sqrt(), torch.tensor([0.5, 2.0]).double(), rtol=0.1, atol=0
    )
    torch.testing.assert_close(found.mean[order][0], torch.zeros(5).double(), rtol=0, atol=0.15)


def test_a_single_point_is_one_component_with_the_least_variance():
    found = fit_mixture(torch.ones(1, 3), 4, seed())
    assert found.mean.tolist() == [[1.0, 1.0, 1.0]]
    assert found.share.tolist() == [1.0]
    assert 0 < float(found.variance) < 1e-5
