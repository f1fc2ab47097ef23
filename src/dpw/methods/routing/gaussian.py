"""Which learned task an image belongs to, and how sure we are."""

from typing import NamedTuple

import torch
from torch import Tensor

from dpw.functional import calibrate, fit_gaussian, gaussian_log_likelihood


class Route(NamedTuple):
    """What was decided for a batch: for every image a task and the weight of its parameters."""

    task: Tensor  # (B,) index of the task whose parameters are used
    weight: Tensor  # (B,) weight for the image tower, from the image's own best task
    text_weight: Tensor  # (B,) weight for the text tower
    gate_weight: Tensor  # (B,) weight that decides whether prefixes are filtered
    confidence: Tensor  # (B, T) calibrated likelihood under every task


class GaussianRouter:
    """One Gaussian over frozen image features per task (as in DIKI), in float64 beside the model."""

    def __init__(self, width: int) -> None:
        """Start without tasks; `width` is the feature width that calibrates the likelihood."""
        self.width = width
        self.means: list[Tensor] = []
        self.choleskys: list[Tensor] = []
        self._stacked: tuple[list[Tensor], Tensor, Tensor] | None = None

    def __len__(self) -> int:
        """How many tasks the router knows."""
        return len(self.means)

    def fit(self, features: Tensor, ridge: float) -> None:
        """Add a task from the normalised frozen features `(n, E)` of its training images."""
        self.add(*fit_gaussian(features.detach().cpu(), ridge))

    def add(self, mean: Tensor, cholesky: Tensor) -> None:
        """Add a task whose Gaussian is already known."""
        self.means.append(mean.double().cpu())
        self.choleskys.append(cholesky.double().cpu())

    def remove(self, index: int) -> None:
        """Forget one task."""
        del self.means[index], self.choleskys[index]

    def log_likelihood(self, features: Tensor) -> Tensor:
        """log N(f; μ_t, Σ_t) of every image under every task, `(B, T)`, float64."""
        return gaussian_log_likelihood(features.detach().cpu(), *self._all())

    def _all(self) -> tuple[Tensor, Tensor]:
        """Means `(T, E)` and factors `(T, E, E)` of all tasks, joined again only when a task has changed."""
        tasks = [*self.means, *self.choleskys]
        known = self._stacked[0] if self._stacked is not None else []
        if self._stacked is None or [id(one) for one in known] != [id(one) for one in tasks]:
            self._stacked = tasks, torch.stack(self.means), torch.stack(self.choleskys)
        return self._stacked[1:]

    def confidence(self, features: Tensor) -> Tensor:
        """The calibrated likelihood σ(ℓ/width − 1) of every image under every task, `(B, T)`."""
        return calibrate(self.log_likelihood(features), self.width)

    def route(self, features: Tensor, vote: bool = False) -> Route:
        """Choose a task per image, or, with `vote`, one for the whole batch by majority.

        Under a vote every image keeps the weight of its own best task, while the text weight and the gate
        use the batch mean, as in the published protocols.
        """
        likelihood = self.log_likelihood(features)
        confidence = calibrate(likelihood, self.width)
        weight, task = confidence.amax(dim=1), likelihood.argmax(dim=1)
        if not vote:
            return Route(task, weight, weight, weight, confidence)
        mean = weight.mean().expand_as(weight)
        return Route(majority(task, len(self)).expand_as(task), weight, mean, mean, confidence)


def majority(task: Tensor, tasks: int) -> Tensor:
    """The task most images chose; of equals the first."""
    return torch.bincount(task, minlength=tasks).argmax()
