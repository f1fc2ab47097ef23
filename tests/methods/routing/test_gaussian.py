"""Gaussians of single tasks."""

import torch
from torch.nn import functional as F

from benchmarks import models
from dpw.methods.routing.gaussian import GaussianRouter


def test_likelihoods_follow_when_tasks_come_and_go():
    router, generator = GaussianRouter(8), torch.Generator().manual_seed(0)
    features = F.normalize(torch.randn(5, 8, generator=generator), dim=-1)
    for _ in range(3):
        router.add(*models.random_gaussian(8, generator))
    three = router.log_likelihood(features)
    router.remove(1)
    assert torch.equal(router.log_likelihood(features), three[:, [0, 2]])
    router.means[0] = router.means[0] + 1
    assert not torch.equal(router.log_likelihood(features)[:, 0], three[:, 0])
