"""One Gaussian over frozen image features per task (as in DIKI), in float64 beside the model."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from dpw.functional import calibrate, fit_gaussian, gaussian_log_likelihood
from dpw.methods.bank import HostTensors
from dpw.methods.routing.route import Route, majority


def fitted_gaussian(features: Tensor, ridge: float) -> HostTensors:
    """The mean and Cholesky factor of a task's normalised frozen features `(n, E)`."""
    mean, cholesky = fit_gaussian(features.detach().cpu(), ridge)
    return HostTensors({"mean": mean, "cholesky": cholesky})


def stored_gaussian(tensors: Mapping[str, Tensor]) -> HostTensors:
    """A Gaussian from its stored tensors."""
    return HostTensors({name: tensors[name] for name in ("mean", "cholesky")})


class GaussianRouter:
    """Chooses the task whose Gaussian makes an image most likely, and weighs it by that likelihood."""

    def __init__(self, width: int, gaussians: Callable[[], Sequence[HostTensors]]) -> None:
        """`width` is the feature width that calibrates the likelihood; `gaussians()` those of all tasks."""
        self.width = width
        self.gaussians = gaussians
        self._stacked: tuple[list[Tensor], Tensor, Tensor] | None = None

    def log_likelihood(self, features: Tensor) -> Tensor:
        """log N(f; μ_t, Σ_t) of every image under every task, `(B, T)`, float64."""
        return gaussian_log_likelihood(features.detach().cpu(), *self._all())

    def _all(self) -> tuple[Tensor, Tensor]:
        """Means `(T, E)` and factors `(T, E, E)` of all tasks, joined again only when a task has changed."""
        means, factors = ([one[name] for one in self.gaussians()] for name in ("mean", "cholesky"))
        known = self._stacked[0] if self._stacked is not None else []
        if self._stacked is None or [id(one) for one in known] != [id(one) for one in [*means, *factors]]:
            self._stacked = [*means, *factors], torch.stack(means), torch.stack(factors)
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
        chosen = majority(task, likelihood.shape[1]).expand_as(task)
        return Route(chosen, weight, mean, mean, confidence)
