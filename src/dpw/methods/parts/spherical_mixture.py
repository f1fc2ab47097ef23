"""A few spherical Gaussians for the features of a class, from which features can be drawn again."""

from typing import NamedTuple

import torch
from torch import Tensor

from dpw.methods.routing.kmeans import kmeans

FLOOR = 1e-6  # added to every variance
ROUNDS = 100
ENOUGH = 1e-3  # change of the mean log-likelihood at which the fit is good


class SphericalMixture(NamedTuple):
    """Components: mean `(k, E)`, variance `(k,)` of every number, share `(k,)`."""

    mean: Tensor
    variance: Tensor
    share: Tensor


def fit_mixture(points: Tensor, components: int, generator: torch.Generator) -> SphericalMixture:
    """Expectation maximisation from a k-means start, in float64; never more components than points."""
    points = points.double()
    centres = kmeans(points, components, generator)
    belongs = torch.nn.functional.one_hot(torch.cdist(points, centres).argmin(dim=1), len(centres)).double()
    fitted, before = _maximised(points, belongs), -torch.inf
    for _ in range(ROUNDS):
        joint = _log_joint(points, fitted)
        total = joint.logsumexp(dim=1)
        fitted = _maximised(points, (joint - total[:, None]).exp())
        now = float(total.mean())
        if abs(now - before) < ENOUGH:
            break
        before = now
    return fitted


def _maximised(points: Tensor, belongs: Tensor) -> SphericalMixture:
    """The components that suit how far each point belongs to each, `(n, k)`."""
    count = belongs.sum(dim=0).clamp(min=torch.finfo(belongs.dtype).eps)
    mean = belongs.T @ points / count[:, None]
    squares = (belongs * torch.cdist(points, mean) ** 2).sum(dim=0)
    return SphericalMixture(mean, squares / (count * points.shape[1]) + FLOOR, count / count.sum())


def _log_joint(points: Tensor, mixture: SphericalMixture) -> Tensor:
    """log π_k + log N(x; μ_k, σ²_k I) up to a constant, `(n, k)`."""
    distance = torch.cdist(points, mixture.mean) ** 2
    width = points.shape[1]
    return mixture.share.log() - 0.5 * (distance / mixture.variance + width * mixture.variance.log())
