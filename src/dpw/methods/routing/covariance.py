"""The two forms of a task's covariance, and the likelihood of features under either.

With many images it is a Cholesky factor of E × E numbers. With n images, fewer than a feature has numbers,
Σ = A + S where A is diagonal and S has rank n − 1: then the whitened directions of S say all, in n rows.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from dpw.functional import gaussian_log_likelihood
from dpw.methods.bank import HostTensors

DIRECTIONS = ("added", "directions", "variances")  # tensors of the second form


def is_smaller(images: int, width: int) -> bool:
    """Whether so many images are better kept by their directions than as a square."""
    return images + 2 < width


def by_directions(features: Tensor, added: Tensor) -> dict[str, Tensor]:
    """The Gaussian of features `(n, E)` with Σ = diag(added) + their unbiased covariance.

    With x̃ = A^(−1/2) x the covariance of the images is Σ s v vᵀ over m < n orthogonal directions v `(m, E)`
    with variances s `(m,)`, those of no size left out.
    """
    features = features.double()
    mean = features.mean(dim=0)
    whitened = (features - mean) / added.sqrt() / max(len(features) - 1, 1) ** 0.5
    _, sizes, directions = torch.linalg.svd(whitened, full_matrices=False)
    counts = sizes > sizes.amax() * max(whitened.shape) * torch.finfo(torch.float64).eps
    return {
        "mean": mean,
        "added": added,
        "directions": directions[counts].contiguous(),
        "variances": sizes[counts].square(),
    }


def log_likelihood(features: Tensor, task: HostTensors) -> Tensor:
    """log N(f; μ, Σ) of features `(B, E)` under the Gaussian of one task, `(B,)` in float64."""
    if "cholesky" in task.tensors:
        return gaussian_log_likelihood(features, task["mean"], task["cholesky"])
    added, directions, variances = (task[name].double() for name in DIRECTIONS)
    whitened = (features.double() - task["mean"].double()) / added.sqrt()
    along = whitened @ directions.T  # (B, m)
    # What the directions leave is taken from the features themselves: a difference of squares would cancel.
    beside = whitened - along @ directions
    distance = beside.square().sum(dim=1) + (along.square() / (1 + variances)).sum(dim=1)
    log_determinant = added.log().sum() + (1 + variances).log().sum()
    constant = log_determinant + len(added) * math.log(2 * math.pi)
    likelihood: Tensor = -0.5 * (distance + constant)
    return likelihood


def cholesky_factor(task: Mapping[str, Tensor]) -> Tensor:
    """The Cholesky factor `(E, E)` of a task's covariance, whichever form it has."""
    if "cholesky" in task:
        return task["cholesky"].double()
    added, directions, variances = (task[name].double() for name in DIRECTIONS)
    root = directions * added.sqrt() * variances.sqrt()[:, None]
    factor: Tensor = torch.linalg.cholesky(torch.diag(added) + root.T @ root)
    return factor
