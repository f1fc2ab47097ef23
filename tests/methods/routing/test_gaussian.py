"""Gaussians of single tasks."""

import pytest
import torch
from torch.nn import functional as F

from benchmarks import models
from dpw.methods.bank import HostTensors
from dpw.methods.routing.gaussian import GaussianRouter, fitted_gaussian, quantile, sample_gaussian


def test_likelihoods_follow_when_tasks_come_and_go():
    gaussians, generator = [], torch.Generator().manual_seed(0)
    router = GaussianRouter(lambda: gaussians, 0.825, fitted=True)
    features = F.normalize(torch.randn(5, 8, generator=generator), dim=-1)
    for _ in range(3):
        gaussians.append(models.gaussian(*models.random_gaussian(8, generator)))
    three = router.log_likelihood(features)
    del gaussians[1]
    assert torch.equal(router.log_likelihood(features), three[:, [0, 2]])
    gaussians[0].tensors["mean"] = gaussians[0]["mean"] + 1
    assert not torch.equal(router.log_likelihood(features)[:, 0], three[:, 0])


def scattered(count: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(count, 8, generator=generator, dtype=torch.float64) + 2, dim=-1)


def fitted_router(count: int = 40) -> GaussianRouter:
    """A router over one task that keeps what its own left-out images get."""
    target = torch.eye(8, dtype=torch.float64) / 8
    task = fitted_gaussian(scattered(count), target, 1e-7)
    return GaussianRouter(lambda: [task], 0.825, fitted=True)


def test_a_task_weighs_its_median_image_095_and_its_edge_one_half():
    router = fitted_router()
    own = router.gaussians()[0]["own"]
    middle, edge = own.quantile(0.5), own.quantile(0.05)
    weights = torch.sigmoid(router.logit(torch.stack([middle, edge])[:, None]))[:, 0]
    assert float(weights[0]) == pytest.approx(0.95)
    assert float(weights[1]) == pytest.approx(0.5, abs=0.25)
    assert router.gates().tolist() == [0.5]


def test_features_of_the_papers_width_with_enough_images_keep_the_papers_weights():
    mean, factor = torch.zeros(512, dtype=torch.float64), torch.eye(512, dtype=torch.float64)
    kept = {"mean": mean, "cholesky": factor, "own": torch.zeros(3), "ridge": torch.tensor(0.0)}
    router = GaussianRouter(lambda: [HostTensors(kept)], 0.825, fitted=True)
    likelihood = torch.tensor([[512.0], [0.0]], dtype=torch.float64)
    assert router.logit(likelihood).flatten().tolist() == [0.0, -1.0]
    assert router.gates().tolist() == [0.825]


def test_typicality_is_a_share_of_the_tasks_own_images():
    router = fitted_router()
    own, strangers = scattered(400, seed=1), -scattered(50, seed=2)
    typical = router.typicality(router.measure(own))[:, 0]
    assert 0.01 < float((typical <= 0.05).double().mean()) < 0.12
    assert float((router.typicality(router.measure(strangers))[:, 0] <= 0.05).double().mean()) == 1


def test_a_task_without_likelihoods_of_its_own_cannot_say_what_is_typical():
    task = sample_gaussian(scattered(20), 1e-7)
    router = GaussianRouter(lambda: [task], 0.825, fitted=True)
    assert router.typicality(router.measure(scattered(2))) is None


@pytest.mark.parametrize("count", [1, 2, 7, 20, 101])
def test_quantiles_of_sorted_numbers_are_those_of_torch(count):
    numbers = torch.randn(count, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for level in (0.05, 0.25, 0.5, 0.75):
        assert quantile(numbers.sort().values, level) == numbers.quantile(level)
