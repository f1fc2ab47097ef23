"""A task as many Gaussians as it has classes, with one covariance: p(f) = 1/C · Σ_c N(f; μ_c, Σ).

The covariance within classes is narrower than that of the whole task, so that strangers lie further outside;
but C means have to be known. Whether they are is asked of the images: each is left out, judged by the class
means and the covariance of the others, and the form under which they are likelier on average is taken.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from dpw.methods.routing.estimation import ENOUGH, RIDGES, diagonal_target, thinned

FEWEST = 20  # images beyond one for each class, without which nothing is known of the spread within classes


class ClassGaussians(NamedTuple):
    """The Gaussians of a task's classes, and log-likelihoods of its own images, each left out, ascending."""

    means: Tensor  # (C, E)
    residuals: Tensor  # (n, E) of the images from the mean of their class, divided by √(n − C)
    added: Tensor  # (E,) on the diagonal: the floor, and the ridge times the spread of each number
    own: Tensor  # (n,)
    expected: float  # mean log-likelihood of a left-out image
    ridge: float


def fit_classes(features: Tensor, labels: Tensor, floor: float) -> ClassGaussians | None:
    """Gaussians for the classes of features `(n, E)`; None if too few are beyond one for each class."""
    labelled = torch.cat([labels.detach().cpu().double()[:, None], features.detach().cpu().double()], dim=1)
    labelled = torch.unique(labelled, dim=0)  # the same image again says nothing new
    features = labelled[:, 1:]
    _, labels = labelled[:, 0].unique(return_inverse=True)
    counts = torch.bincount(labels)
    freedom = len(features) - len(counts)
    if freedom < FEWEST:
        return None
    means = torch.zeros(len(counts), features.shape[1], dtype=torch.float64)
    means = means.index_add_(0, labels, features) / counts[:, None]
    centred = features - means[labels]
    variance = float(centred.square().sum()) / freedom
    target = diagonal_target(centred).diagonal()
    enough = freedom >= ENOUGH * features.shape[1]
    ridges = [0.0] if enough else (RIDGES * max(variance, floor)).tolist()
    left = _LeftOut(features, labels, means, centred)
    own = [left.likelihoods(floor + ridge * target) for ridge in ridges]
    best = max(range(len(ridges)), key=lambda index: float(own[index].mean()))
    return ClassGaussians(
        means,
        centred / math.sqrt(freedom),
        floor + ridges[best] * target,
        thinned(own[best].sort().values),
        float(own[best].mean()),
        ridges[best],
    )


class _LeftOut:
    """What every image is worth to the others' Gaussians, for any regularisation.

    With c = f_i − μ_y, k = n_y/(n_y − 1) and m = n − C − 1: leaving image i out moves the mean of its class
    to f_i − k·c and takes k/m · c cᵀ from the covariance, of rank one, so one factorisation serves all.
    An image that is alone in its class leaves the covariance as it is, and its class away.
    """

    def __init__(self, features: Tensor, labels: Tensor, means: Tensor, centred: Tensor) -> None:
        """Images `(n, E)` with labels `(n,)`, class means `(C, E)` and what is left of the images."""
        self.features, self.labels, self.means, self.centred = features, labels, means, centred
        counts = torch.bincount(labels)[labels].double()
        self.alone = counts == 1
        self.factor = torch.where(self.alone, 0.0, counts / (counts - 1).clamp(min=1))
        self.freedom = len(features) - len(means) - 1
        self.covariance = centred.T @ centred / self.freedom

    def likelihoods(self, added: Tensor) -> Tensor:
        """log p(f_i) `(n,)` under the Gaussians of all others; `added` `(E,)` goes on the diagonal."""
        cholesky = torch.linalg.cholesky(self.covariance + torch.diag(added))
        images, means, own = (
            torch.linalg.solve_triangular(cholesky, part.T, upper=False).T
            for part in (self.features, self.means, self.centred)
        )
        every = torch.arange(len(images))
        squares, share = own.square().sum(dim=1), self.factor / self.freedom
        left = (1 - share * squares).clamp(min=1e-12)
        # Distances to all class means, and how far each lies along the image's own residual.
        distance = images.square().sum(dim=1)[:, None] + means.square().sum(dim=1) - 2 * images @ means.T
        along = (images * own).sum(dim=1)[:, None] - own @ means.T
        distance[every, self.labels], along[every, self.labels] = (
            self.factor**2 * squares,
            self.factor * squares,
        )
        distance = distance + (share / left)[:, None] * along**2
        log_determinant = 2 * cholesky.diagonal().log().sum() + left.log()
        constant = log_determinant + len(added) * math.log(2 * math.pi)
        # A class without its only image is none.
        without = torch.zeros_like(distance)
        without[every[self.alone], self.labels[self.alone]] = -torch.inf
        mixed = torch.logsumexp(-0.5 * (distance + constant[:, None]) + without, dim=1)
        return mixed - (len(self.means) - self.alone.double()).log()
