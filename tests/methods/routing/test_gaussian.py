"""Gaussians of single tasks."""

import torch
from torch.nn import functional as F

from benchmarks import models
from dpw.methods.routing.gaussian import GaussianRouter


def test_likelihoods_follow_when_tasks_come_and_go():
    gaussians, generator = [], torch.Generator().manual_seed(0)
    router = GaussianRouter(8, lambda: gaussians)
    features = F.normalize(torch.randn(5, 8, generator=generator), dim=-1)
    for _ in range(3):
        gaussians.append(models.gaussian(*models.random_gaussian(8, generator)))
    three = router.log_likelihood(features)
    del gaussians[1]
    assert torch.equal(router.log_likelihood(features), three[:, [0, 2]])
    gaussians[0].tensors["mean"] = gaussians[0]["mean"] + 1
    assert not torch.equal(router.log_likelihood(features)[:, 0], three[:, 0])
