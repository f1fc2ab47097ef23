"""Closed-form ridge regression in a kernel space, with exact leave-one-out predictions for every penalty.

Everything is float64. Up to `LANDMARKS` images the kernel is exact; beyond, the solution is restricted to the
span of that many landmark images (Nyström), so cost grows linearly with the images. In both cases the result
is one weight for each landmark and class, and predicts k(x, landmarks) · weights.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

LANDMARKS = 2048
JITTER = 1e-9  # on the diagonal of the landmarks' own kernel
FULL_LEVERAGE = 1 - 1e-9  # an image that decides its own prediction alone would divide by zero


class Fitted(NamedTuple):
    """Weights `(m, C)` on the landmarks, and for each training image what all others predict `(n, C)`."""

    weights: Tensor
    leave_one_out: Tensor


def gaussian_kernel(a: Tensor, b: Tensor, gamma: float) -> Tensor:
    """exp(−γ‖a − b‖²) of all pairs, `(n, m)`."""
    squares = (a**2).sum(dim=1)[:, None] + (b**2).sum(dim=1)[None] - 2 * a @ b.T
    return torch.exp(-gamma * squares.clamp(min=0))


def landmark_rows(labels: Tensor, limit: int = LANDMARKS) -> Tensor:
    """All rows if there are few; else the first of each class in turn, in ascending order."""
    if len(labels) <= limit:
        return torch.arange(len(labels))
    turn = torch.zeros_like(labels)
    for label in sorted(set(labels.tolist())):
        own = (labels == label).nonzero().flatten()
        turn[own] = torch.arange(len(own))
    return torch.argsort(turn, stable=True)[:limit].sort().values


class KernelRidge:
    """One decomposition of the kernel, from which the solution for any targets and penalty is cheap."""

    def __init__(self, images: Tensor, landmarks: Tensor, gamma: float) -> None:
        """Decompose; images `(n, D)` and landmarks `(m, D)` are the same rows where there are few."""
        self.factor: Tensor | None = None
        kernel = gaussian_kernel(images, landmarks, gamma)
        if len(images) == len(landmarks):
            values, self.basis = torch.linalg.eigh(kernel)  # K = Q diag(e) Qᵀ
            self.vectors = self.basis
        else:
            own = gaussian_kernel(landmarks, landmarks, gamma)
            own.diagonal().add_(JITTER)
            self.factor = torch.linalg.cholesky(own)
            mapped = torch.linalg.solve_triangular(self.factor, kernel.T, upper=False).T
            values, self.vectors = torch.linalg.eigh(mapped.T @ mapped)
            self.basis = mapped @ self.vectors
        self.values, self.squares = values.clamp(min=0), self.basis**2

    def rotate(self, targets: Tensor) -> Tensor:
        """Targets in the basis of the decomposition, computed once for all penalties."""
        rotated: Tensor = self.basis.T @ targets
        return rotated

    def fit(self, targets: Tensor, rotated: Tensor, penalty: float) -> Fitted:
        """Solve (K + λI) α = targets, or its Nyström form."""
        shrink = 1 / (self.values + penalty)
        inner = self.vectors @ (shrink[:, None] * rotated)
        if self.factor is None:  # t_i − α_i / (K + λI)⁻¹_ii
            return Fitted(inner, targets - inner / (self.squares @ shrink)[:, None])
        weights = torch.linalg.solve_triangular(self.factor.T, inner, upper=True)
        predicted = self.basis @ (shrink[:, None] * rotated)
        leverage = (self.squares @ shrink)[:, None].clamp(max=FULL_LEVERAGE)
        return Fitted(weights, targets - (targets - predicted) / (1 - leverage))


def ridge(kernel: Tensor, targets: Tensor, penalty: float) -> Tensor:
    """α = (K + λI)⁻¹ T by Cholesky, `(n, C)`."""
    shifted = kernel.clone()
    shifted.diagonal().add_(penalty)
    solved: Tensor = torch.cholesky_solve(targets, torch.linalg.cholesky(shifted))
    return solved


def one_hot(labels: Tensor, classes: int) -> Tensor:
    """Labels as float64 rows of zeros with a one."""
    return F.one_hot(labels, classes).double()


def scaled_nll(scores: Tensor, labels: Tensor, scales: Sequence[float]) -> float:
    """Summed negative log-likelihood of softmax(scale · scores), by the best of the scales."""
    return min(float(F.cross_entropy(scores * scale, labels, reduction="sum")) for scale in scales)


def soft_choice(losses: Tensor, temperature: float) -> Tensor:
    """Weights ∝ exp(−loss / temperature): near the minimum for many images, an average for few."""
    return torch.softmax(-losses.double() / temperature, dim=0)
