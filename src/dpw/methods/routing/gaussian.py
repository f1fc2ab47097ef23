"""One Gaussian over frozen image features per task (as in DIKI), in float64 beside the model."""

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from dpw.functional import fit_gaussian
from dpw.methods.bank import HostTensors
from dpw.methods.routing.classes import ClassGaussians, fit_classes
from dpw.methods.routing.covariance import (
    CENTRES,
    DIRECTIONS,
    by_directions,
    coordinates,
    directions_of,
    is_smaller,
    log_likelihood,
)
from dpw.methods.routing.estimation import TaskGaussian, fit_task
from dpw.methods.routing.route import Route, majority

PAPER_WIDTH = 512  # of the features that the paper's σ(ℓ/width − 1) and its gate belong to
MEDIAN_WEIGHT = 0.95  # of an image as likely as the median of the task's own left-out images
EDGE = 0.05  # the quantile of the own images whose weight is one half, which is also the gate
FITTED_GATE = 0.5
TEXTS = "texts"  # beside a task's Gaussian: text features of its own classes, at all weights of a grid
FEW_SPREAD, LEAST_SPREAD = 1 / 4, 1 / 8  # of the median less the 5 % quantile, in units of the width


def sample_gaussian(features: Tensor, ridge: float) -> HostTensors:
    """The paper's Gaussian of normalised frozen features `(n, E)`, whatever their number."""
    features = features.detach().cpu()
    added = torch.full((features.shape[1],), ridge, dtype=torch.float64)
    if is_smaller(len(features), features.shape[1]):
        return HostTensors(by_directions(features, added))
    mean, cholesky = fit_gaussian(features, ridge)
    return HostTensors({"mean": mean, "cholesky": cholesky})


def fitted_gaussian(
    features: Tensor, target: Tensor, floor: float, labels: Tensor | None = None
) -> HostTensors:
    """A Gaussian for any number of images, with the likelihoods of its own images when they are left out.

    target: the covariance `(E, E)` towards which few images are regularised. With `labels` the task gets a
    mean for each class instead of one, if that makes left-out images likelier.
    """
    found: TaskGaussian = fit_task(features, target, floor)
    classes = None if labels is None else fit_classes(features, labels, floor)
    if classes is not None and classes.expected > float(found.own.mean()):
        return _of_classes(classes)
    ridge = torch.tensor(found.ridge, dtype=torch.float64)
    shape = {"mean": found.mean, "cholesky": found.cholesky}
    variances = target.diagonal()
    if is_smaller(len(features), len(target)) and torch.equal(target, torch.diag(variances)):
        different = torch.unique(features.detach().double().cpu(), dim=0)  # as `fit_task` counts them
        shape = by_directions(different, floor + found.ridge * variances)
    return HostTensors({**shape, "own": found.own, "ridge": ridge})


def _of_classes(found: ClassGaussians) -> HostTensors:
    """The tensors of a task with a mean for each class."""
    mean = found.means.mean(dim=0)
    if is_smaller(len(found.residuals), len(mean)):
        shape = directions_of(found.residuals, found.added)
    else:
        covariance = found.residuals.T @ found.residuals + torch.diag(found.added)
        shape = {"cholesky": torch.linalg.cholesky(covariance)}
    centres = coordinates(found.means - mean, shape)
    ridge = torch.tensor(found.ridge, dtype=torch.float64)
    return HostTensors({"mean": mean, **shape, CENTRES: centres, "own": found.own, "ridge": ridge})


def stored_gaussian(tensors: Mapping[str, Tensor]) -> HostTensors:
    """A Gaussian from its stored tensors; those of the paper's estimator are mean and factor only."""
    shape = DIRECTIONS if "directions" in tensors else ("cholesky",)
    needed, possible = ("mean", *shape), (CENTRES, "own", "ridge", TEXTS)
    return HostTensors(
        {name: tensors[name] for name in (*needed, *possible) if name in tensors or name in needed}
    )


class GaussianRouter:
    """Chooses the task whose Gaussian makes an image most likely, and weighs it by that likelihood."""

    def __init__(self, gaussians: Callable[[], Sequence[HostTensors]], gate: float, fitted: bool) -> None:
        """`gaussians()` are those of all tasks; `gate` and σ(ℓ/width − 1) hold under the paper's conditions.

        With `fitted`, tasks outside of them get their weight from what their own left-out images get.
        """
        self.gaussians, self.gate, self.fitted = gaussians, gate, fitted

    def measure(self, features: Tensor) -> Tensor:
        """What this router decides by: the log-likelihoods `(B, T)` of features `(B, E)`."""
        return self.log_likelihood(features)

    def log_likelihood(self, features: Tensor) -> Tensor:
        """log N(f; μ_t, Σ_t) of every image under every task, `(B, T)`, float64."""
        features = features.detach().cpu().double()
        return torch.stack([log_likelihood(features, task) for task in self.gaussians()], dim=1)

    def logit(self, likelihood: Tensor) -> Tensor:
        """The logit of every task's weight `(B, T)`: its log is exact however far an image is."""
        columns = [self._logit(task, likelihood[:, t]) for t, task in enumerate(self.gaussians())]
        return torch.stack(columns, dim=1)

    def _logit(self, task: HostTensors, likelihood: Tensor) -> Tensor:
        """ℓ/width − 1 as in the paper; else 0.95 at the median of the task's own images, 0.5 at their 5 %."""
        width = len(task["mean"])
        if not self.uses_own(task):
            return likelihood / width - 1
        middle = quantile(task["own"], 0.5)
        strength = math.log(MEDIAN_WEIGHT / (1 - MEDIAN_WEIGHT))
        return strength * (1 + (likelihood - middle) / spread(task["own"], width))

    def uses_own(self, task: HostTensors) -> bool:
        """Whether a task's weights follow from its own images: it keeps them and is not as in the paper."""
        if not self.fitted or "own" not in task.tensors:
            return False
        as_in_paper = float(task["ridge"]) == 0 and len(task["mean"]) == PAPER_WIDTH
        return not as_in_paper

    def gates(self) -> Tensor:
        """The weight `(T,)` below which a task's prefixes are filtered."""
        return torch.tensor([self.gate_of(task) for task in self.gaussians()], dtype=torch.float64)

    def gate_of(self, task: HostTensors) -> float:
        """That weight for one task."""
        return FITTED_GATE if self.uses_own(task) else self.gate

    def typicality(self, likelihood: Tensor) -> Tensor | None:
        """Share `(B, T)` of each task's own left-out images that are no likelier than an image, never zero.

        A conformal p-value: an image of the task is below q with a chance of at most q. None if a task keeps
        no likelihoods of its own images.
        """
        tasks = self.gaussians()
        if not all("own" in task.tensors for task in tasks):
            return None
        columns = []
        for index, task in enumerate(tasks):
            own = task["own"]
            below = torch.searchsorted(own, likelihood[:, index].contiguous(), right=True)
            columns.append((below + 1).double() / (len(own) + 1))
        return torch.stack(columns, dim=1)

    def route(self, features: Tensor, vote: bool = False) -> Route:
        """Choose a task for every image by its features `(B, E)`; see `decide`."""
        return self.decide(self.measure(features), vote)

    def decide(self, likelihood: Tensor, vote: bool = False) -> Route:
        """Choose a task per image, or, with `vote`, one for the whole batch by majority.

        Under a vote every image keeps the weight of its own best task, while the text weight and the gate
        use the batch mean, as in the published protocols.
        """
        logit = self.logit(likelihood)
        confidence, task = torch.sigmoid(logit), likelihood.argmax(dim=1)
        # The paper's weight grows with the likelihood, so that of the best task is the largest.
        weight = confidence.gather(1, task[:, None])[:, 0] if self.fitted else confidence.amax(dim=1)
        log_confidence = F.logsigmoid(logit)
        if not vote:
            return Route(task, weight, weight, weight, confidence, log_confidence)
        mean = weight.mean().expand_as(weight)
        chosen = majority(task, likelihood.shape[1]).expand_as(task)
        return Route(chosen, weight, mean, mean, confidence, log_confidence)


def quantile(ascending: Tensor, level: float) -> Tensor:
    """As `torch.quantile` of numbers in ascending order, which it would sort again for every answer."""
    place = level * (len(ascending) - 1)
    below = int(place)
    above = min(below + 1, len(ascending) - 1)
    return torch.lerp(ascending[below], ascending[above], place - below)


def spread(own: Tensor, width: int) -> float:
    """Median less 5 % quantile of a task's own log-likelihoods; few images may lie close by chance."""
    found = float(quantile(own, 0.5) - quantile(own, EDGE))
    return max(found, width * (FEW_SPREAD if len(own) < 1 / EDGE else LEAST_SPREAD))
