"""A task's Gaussian from any number of images, and how likely its own images are when they are left out.

Σ = S + 1e-7·I + ridge·P, where S is the unbiased sample covariance and P a fixed target of trace one. With
twice as many images as a feature has numbers the ridge is zero, which is the paper's estimator to the digit.
With fewer, it is the one under which every image is likeliest given all *others*: leaving one image out
changes S by a matrix of rank one, so all leave-one-out likelihoods come from one factorisation a ridge,
without folds and without randomness.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

ENOUGH = 2  # images for each number of a feature, from which on the sample covariance needs no help
RIDGES = torch.logspace(-4, 1, 26, dtype=torch.float64)  # tried, in units of the features' total variance
SINGLE = 0.8  # the ridge of a single image: the squared distance of two unit features of one task
KEPT = 1001  # left-out likelihoods that a task keeps, evenly over all
ROWS = 4096  # images at a time


class TaskGaussian(NamedTuple):
    """One task's Gaussian, and the log-likelihoods of its own images, each left out, in ascending order."""

    mean: Tensor  # (E,)
    cholesky: Tensor  # (E, E)
    own: Tensor  # (n,)
    ridge: float  # 0 is the paper's estimator


def projection_target(projection: Tensor, scale: Tensor) -> Tensor:
    """The covariance `(E, E)` that white noise has after CLIP's last layer norm and projection, trace one.

    projection `(E, D)` is the weight of the visual projection, scale `(D,)` that of the layer norm. It needs
    no image and is the same for all tasks.
    """
    root = projection.detach().double().cpu() * scale.detach().double().cpu()
    covariance = root @ root.T
    return covariance / covariance.trace()


def diagonal_target(features: Tensor) -> Tensor:
    """For features that no single projection makes: their own variances, uncorrelated, trace one."""
    variance = torch.ones(features.shape[1], dtype=torch.float64)
    if len(features) > 1:
        variance = features.detach().cpu().double().var(dim=0)
    if not bool(variance.any()):  # the same image again and again
        variance = torch.ones_like(variance)
    return torch.diag(variance / variance.sum())


def fit_task(features: Tensor, target: Tensor, floor: float) -> TaskGaussian:
    """The Gaussian of a task from frozen features `(n, E)` of one image or more; floor: the paper's 1e-7."""
    features = features.detach().double().cpu()
    enough = len(features) >= ENOUGH * features.shape[1]
    if not enough:
        features = torch.unique(features, dim=0)  # the same image again says nothing new
    count, width = features.shape
    mean = features.mean(dim=0)
    centred = features - mean
    identity = torch.eye(width, dtype=features.dtype)
    sample = centred.T @ centred
    base = sample / max(count - 1, 1) + floor * identity
    if count == 1:
        cholesky = torch.linalg.cholesky(base + SINGLE * target)
        return TaskGaussian(mean, cholesky, _expected(cholesky)[None], SINGLE)
    variance = float(sample.trace()) / (count - 1)
    ridges = [0.0] if enough else (RIDGES * max(variance, floor)).tolist()
    own = [left_out(centred, floor * identity + ridge * target) for ridge in ridges]
    best = max(range(len(ridges)), key=lambda index: float(own[index].mean()))
    cholesky = torch.linalg.cholesky(base + ridges[best] * target)
    return TaskGaussian(mean, cholesky, thinned(own[best].sort().values), ridges[best])


def left_out(centred: Tensor, added: Tensor) -> Tensor:
    """log N(f_i; μ_-i, S_-i + added) of every image `(n,)` under the Gaussian of all others; n >= 2.

    With c = f_i − μ and m = max(n − 2, 1):  S_-i = (n−1)/m S − n/((n−1)m) c cᵀ  and  f_i − μ_-i = n/(n−1) c.
    """
    count, width = centred.shape
    others = max(count - 2, 1)
    cholesky = torch.linalg.cholesky(centred.T @ centred / others + added)
    solved = [
        torch.linalg.solve_triangular(cholesky, part.T, upper=False) for part in torch.split(centred, ROWS)
    ]
    squares = torch.cat([part.square().sum(dim=0) for part in solved])
    left = (1 - count / ((count - 1) * others) * squares).clamp(min=1e-12)
    distance = (count / (count - 1)) ** 2 * squares / left
    log_determinant = 2 * cholesky.diagonal().log().sum() + left.log()
    likelihood: Tensor = -0.5 * (distance + log_determinant + width * math.log(2 * math.pi))
    return likelihood


def thinned(ordered: Tensor) -> Tensor:
    """At most `KEPT` of ordered values, evenly over all, the first and the last among them."""
    if len(ordered) <= KEPT:
        return ordered
    return ordered[torch.linspace(0, len(ordered) - 1, KEPT).round().long()]


def _expected(cholesky: Tensor) -> Tensor:
    """What an image drawn from a Gaussian gets under it on average."""
    return -0.5 * len(cholesky) * (1 + math.log(2 * math.pi)) - cholesky.diagonal().log().sum()
