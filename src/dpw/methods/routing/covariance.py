"""The two forms of a task's covariance, and the likelihood of features under either.

With many images it is a Cholesky factor of E × E numbers. With n images, fewer than a feature has numbers,
Σ = A + S where A is diagonal and S has rank below n: then the whitened directions of S say all, in n rows.
A task may have several means, those of its classes; then it is their average that is likely.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from dpw.functional import gaussian_log_likelihood
from dpw.methods.bank import HostTensors

DIRECTIONS = ("added", "directions", "variances")  # tensors of the second form
CENTRES = "centres"  # the coordinates of class means `(C, K)`, where a task has several means


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
    centred = (features - mean) / max(len(features) - 1, 1) ** 0.5
    return {"mean": mean, **directions_of(centred, added)}


def directions_of(rows: Tensor, added: Tensor) -> dict[str, Tensor]:
    """The second form of Σ = diag(added) + rowsᵀ rows, rows being `(n, E)`."""
    whitened = rows / added.sqrt()
    _, sizes, directions = torch.linalg.svd(whitened, full_matrices=False)
    counts = sizes > sizes.amax() * max(whitened.shape) * torch.finfo(torch.float64).eps
    return {
        "added": added,
        "directions": directions[counts].contiguous(),
        "variances": sizes[counts].square(),
    }


def log_likelihood(features: Tensor, task: HostTensors) -> Tensor:
    """log N(f; μ, Σ) of features `(B, E)` under the Gaussian of one task, `(B,)` in float64."""
    if CENTRES not in task.tensors and "cholesky" in task.tensors:
        return gaussian_log_likelihood(features, task["mean"], task["cholesky"])
    points = coordinates(features.double() - task["mean"].double(), task.tensors)
    constant = log_determinant(task.tensors) + features.shape[1] * math.log(2 * math.pi)
    if CENTRES not in task.tensors:
        return -0.5 * (points.square().sum(dim=1) + constant)
    centres = task[CENTRES].double()
    each = [-0.5 * ((points - centre).square().sum(dim=1) + constant) for centre in centres]
    return mean_of_logs(torch.stack(each, dim=1))


def mean_of_logs(each: Tensor) -> Tensor:
    """The log of the mean of what `(B, C)` are the logs of, `(B,)`."""
    most = each.amax(dim=1, keepdim=True)
    return most[:, 0] + ((each - most).exp().sum(dim=1) / each.shape[1]).log()


def coordinates(differences: Tensor, task: Mapping[str, Tensor]) -> Tensor:
    """Differences `(B, E)` of features in coordinates `(B, K)` whose square is their Mahalanobis length."""
    if "cholesky" in task:
        factor = task["cholesky"].double()
        solved: Tensor = torch.linalg.solve_triangular(factor, differences.T, upper=False)
        return solved.T.contiguous()
    added, directions, variances = (task[name].double() for name in DIRECTIONS)
    whitened = differences / added.sqrt()
    along = whitened @ directions.T  # (B, m)
    # What the directions leave is taken from the features themselves: a difference of squares would cancel.
    return torch.cat([whitened - along @ directions, along / (1 + variances).sqrt()], dim=1)


def log_determinant(task: Mapping[str, Tensor]) -> Tensor:
    """log |Σ|, a single number."""
    if "cholesky" in task:
        return 2 * task["cholesky"].double().diagonal().log().sum()
    return task["added"].double().log().sum() + (1 + task["variances"].double()).log().sum()


def mean_differences(task: Mapping[str, Tensor]) -> Tensor:
    """How far the means of a task's classes lie from the task's own mean, `(C, E)`; zero for a single one."""
    if CENTRES not in task:
        return torch.zeros_like(task["mean"].double())[None]
    centres = task[CENTRES].double()
    if "cholesky" in task:
        return centres @ task["cholesky"].double().T
    added, directions, variances = (task[name].double() for name in DIRECTIONS)
    beside, along = centres[:, : len(added)], centres[:, len(added) :] * (1 + variances).sqrt()
    return (beside + along @ directions) * added.sqrt()


def cholesky_factor(task: Mapping[str, Tensor]) -> Tensor:
    """The Cholesky factor `(E, E)` of a task's covariance, whichever form it has."""
    if "cholesky" in task:
        return task["cholesky"].double()
    added, directions, variances = (task[name].double() for name in DIRECTIONS)
    root = directions * added.sqrt() * variances.sqrt()[:, None]
    factor: Tensor = torch.linalg.cholesky(torch.diag(added) + root.T @ root)
    return factor
