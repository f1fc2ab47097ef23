"""Which task an image belongs to, as part of a graph: the Gaussians of all tasks in one product."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dpw.methods.parts.heads import LOWEST, SHARPNESS, STEEPNESS, own_likelihood
from dpw.methods.routing.covariance import cholesky_factor, mean_differences
from dpw.methods.routing.gaussian import GaussianRouter


class Routed(NamedTuple):
    """What the Gaussians of T tasks say about B images, float64."""

    likelihood: Tensor  # (B, T)
    task: Tensor  # (B,) index of the likeliest
    weight: Tensor  # (B,) of its parameters
    confidence: Tensor  # (B, T)
    log_confidence: Tensor  # (B, T)


class GaussianGraph(nn.Module):
    """A `GaussianRouter` as constants of a graph."""

    means: Tensor
    whitening: Tensor
    centres: Tensor
    shares: Tensor
    constant: Tensor
    slope: Tensor
    offset: Tensor
    gates: Tensor

    def __init__(self, router: GaussianRouter) -> None:
        """Invert the factors once: a graph has no triangular solve."""
        super().__init__()
        tasks = router.gaussians()
        means = torch.stack([task["mean"].double() for task in tasks])
        factors = torch.stack([cholesky_factor(task.tensors) for task in tasks])
        identity = torch.eye(means.shape[1], dtype=torch.float64).expand_as(factors)
        inverse = torch.linalg.solve_triangular(factors, identity, upper=False)
        log_determinant = 2 * factors.diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)
        centres, shares = _class_centres([mean_differences(task.tensors) for task in tasks], inverse)
        nothing = torch.zeros(1, len(tasks), dtype=torch.float64)
        offset = router.logit(nothing)[0]
        self.fitted, self.width = router.fitted, means.shape[1]
        for name, tensor in {
            "means": means,
            # Single precision is far finer than the features that are multiplied; sums are double again.
            "whitening": inverse.transpose(1, 2).float().contiguous(),
            "centres": centres,
            "shares": shares,
            "constant": log_determinant + self.width * math.log(2 * math.pi),
            "slope": router.logit(nothing + 1)[0] - offset,  # the logit of a weight is linear in ℓ
            "offset": offset,
            "gates": router.gates(),
        }.items():
            self.register_buffer(name, tensor)

    def log_likelihood(self, features: Tensor) -> Tensor:
        """log N(f; μ_t, Σ_t) of every image under every task, `(B, T)`, or the mean over a task's classes."""
        centred = features.double()[None] - self.means[:, None]
        points = centred @ self.whitening.double()  # (T, B, E)
        if self.centres.shape[1] == 1:
            return -0.5 * (points.square().sum(dim=-1) + self.constant[:, None]).T
        distance = ((points[:, :, None] - self.centres[:, None]) ** 2).sum(dim=-1)  # (T, B, classes)
        each = self.shares[:, None] - 0.5 * (distance + self.constant[:, None, None])
        most = each.amax(dim=-1, keepdim=True)
        return (most[..., 0] + (each - most).exp().sum(dim=-1).log()).T

    def forward(self, features: Tensor) -> Routed:
        """The likeliest task of every image, and how surely it is every task's."""
        likelihood = self.log_likelihood(features)
        logit = likelihood * self.slope + self.offset
        confidence, task = torch.sigmoid(logit), likelihood.argmax(dim=1)
        weight = confidence.gather(1, task[:, None])[:, 0] if self.fitted else confidence.amax(dim=1)
        return Routed(likelihood, task, weight, confidence, F.logsigmoid(logit))


def _class_centres(differences: list[Tensor], inverse: Tensor) -> tuple[Tensor, Tensor]:
    """Whitened class means `(T, longest, E)` and logs of their shares, −∞ for padding, `(T, longest)`."""
    longest = max(map(len, differences))
    centres = torch.stack([F.pad(one, (0, 0, 0, longest - len(one))) for one in differences])
    shares = [
        F.pad(torch.zeros(len(one)).double() - math.log(len(one)), (0, longest - len(one)), value=-math.inf)
        for one in differences
    ]
    return centres @ inverse.transpose(1, 2), torch.stack(shares)


class TypicalityGraph(nn.Module):
    """The share of each task's own left-out images that are no likelier than an image, `(B, T)`."""

    own: Tensor
    count: Tensor

    def __init__(self, router: GaussianRouter) -> None:
        """Keep the tasks' own likelihoods, shorter lists filled up with what no image reaches."""
        super().__init__()
        own = [task["own"].double() for task in router.gaussians()]
        longest = max(map(len, own))
        rows = [F.pad(one, (0, longest - len(one)), value=math.inf) for one in own]
        self.register_buffer("own", torch.stack(rows))
        self.register_buffer("count", torch.tensor([len(one) for one in own], dtype=torch.float64))

    def forward(self, likelihood: Tensor) -> Tensor:
        """Never zero, at most one."""
        below = (self.own <= likelihood[:, :, None]).double().sum(dim=-1)
        return (below + 1) / (self.count + 1)


class BelongingGraph(nn.Module):
    """How much each task that may speak counts for an image: π_t · w_t of `HeadAnswers`."""

    median: Tensor
    per_spread: Tensor

    def __init__(self, router: GaussianRouter) -> None:
        """Keep the middle and the spread of each task's own likelihoods."""
        super().__init__()
        tasks = router.gaussians()
        median, spread = zip(*(own_likelihood(task) for task in tasks), strict=True)
        self.width = len(tasks[0]["mean"])
        self.register_buffer("median", torch.stack(median).double())
        self.register_buffer("per_spread", 1 / torch.stack(spread).double())

    def forward(self, likelihood: Tensor, speakers: Tensor) -> Tensor:
        """`(B, T)` from likelihoods; `speakers` `(1, T)` says who may speak."""
        sharp = SHARPNESS * likelihood / self.width
        share = torch.where(speakers, sharp, -math.inf).softmax(dim=1)
        z = (likelihood - self.median) * self.per_spread
        return share * torch.sigmoid(STEEPNESS * (z - LOWEST))
