"""Answering with a head per task outside of CLIP; who may speak follows from the class list and the image.

Only tasks that know a candidate's name may speak, and only about the candidates they know. Between several,
a Gaussian over frozen features decides how much each counts. An image that belongs to none, and every
question without a learned name, is plain CLIP's.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dpw.data.images import Images
from dpw.functional import gaussian_log_likelihood
from dpw.methods.bank import HostTensors
from dpw.methods.base import Method
from dpw.methods.candidates import Candidates
from dpw.methods.parts.plain import PlainAnswers
from dpw.methods.routing.gaussian import GaussianRouter, fitted_gaussian
from dpw.methods.routing.route import Route

ROUTER, BELONGING = "router", "belonging"  # under which names a task's module holds them
SHARPNESS = 4.0  # of the choice between tasks: softmax(4 · ℓ / feature width)
LOWEST, STEEPNESS = -4.0, 2.0  # belonging is σ(2(z + 4)), z the likelihood in the terms of held-out images
CLIP_TEMPERATURE = 0.35  # zero-shot probabilities are overconfident; times CLIP's own logit scale
NORMAL_QUARTILES = 1.349  # how many deviations of a normal distribution lie between its quartiles
ENOUGH, FOLDS = 10, 5  # held-out images that can be measured on; where there are fewer, folds of the training

HeadLogits = Callable[[int, Images], Tensor]  # task and images to logits (B, C of the task), float64, host


class HeadAnswers:
    """Mixes what the heads of tasks say with plain CLIP: (1 − Σ r_t) p_clip + Σ r_t p_t, r_t = π_t · w_t · M.

    π_t is the share of a task among those that may speak, w_t how far the image belongs to it, M the mass
    plain CLIP gives to the candidates that any of them knows. Each module of the method's bank holds its
    Gaussian under `router` and the spread of its likelihood under `belonging`.
    """

    def __init__(self, method: Method, head_logits: HeadLogits) -> None:
        """`head_logits(index, images)` is what a task says about its own classes."""
        self.method, self.head_logits = method, head_logits
        self.plain = PlainAnswers(method)
        self.router = GaussianRouter(method.backbone.feature_width, self._gaussians)

    def _gaussians(self) -> Sequence[HostTensors]:
        """The Gaussians of all tasks."""
        bank: Any = self.method.bank
        return [module[ROUTER] for module in bank]

    def task_logits(self, pixels: Tensor) -> Tensor:
        """The newest head alone, over its own classes."""
        logits = self.head_logits(len(self.method.tasks) - 1, Images.of(pixels))
        return logits.to(self.method.backbone.logit_scale)

    def route(self, images: Images) -> Route | None:
        """Identify the task of every image from its frozen features."""
        if not self.method.tasks:
            return None
        return self.router.route(self.method.frozen_features(images))

    def logits(self, images: Images, candidates: Candidates) -> Tensor:
        """Log-probabilities of the mixture, or plain CLIP's logits where no task knows a candidate."""
        plain = self.plain.logits(images, candidates)
        known = [candidates.known_to(task.name, task.classes) for task in self.method.tasks]
        # By name, not by position: in any order of learning the sums below are the same to the last bit.
        speakers = sorted(
            (index for index, columns in enumerate(known) if columns),
            key=lambda index: self.method.tasks[index].name,
        )
        if not speakers:
            return plain
        weight = self._weights(images, speakers)
        calm = (CLIP_TEMPERATURE * plain.cpu().double()).softmax(dim=1)
        weight = weight * calm[:, sorted({place for index in speakers for place in known[index]})].sum(
            dim=1, keepdim=True
        ).clamp(max=1)
        mixed = (1 - weight.sum(dim=1, keepdim=True)).clamp(min=0) * calm
        for column, index in enumerate(speakers):
            places, own = list(known[index].keys()), list(known[index].values())
            spoken = self.head_logits(index, images)[:, own].softmax(dim=1)
            mixed[:, places] += weight[:, column : column + 1] * spoken
        return mixed.clamp(min=torch.finfo(torch.float64).tiny).log().to(plain)

    def _weights(self, images: Images, speakers: list[int]) -> Tensor:
        """π_t · w_t of the tasks that may speak, `(B, S)`."""
        likelihood = self.router.log_likelihood(self.method.frozen_features(images))[:, speakers]
        share = (SHARPNESS * likelihood / self.method.backbone.feature_width).softmax(dim=1)
        bank: Any = self.method.bank
        measured = [bank[index][BELONGING] for index in speakers]
        median, spread = (torch.stack([one[name] for one in measured]) for name in ("median", "spread"))
        return share * torch.sigmoid(STEEPNESS * ((likelihood - median) / spread - LOWEST))

    def clear(self) -> None:
        """Drop kept text features."""
        self.plain.clear()


def who_belongs(features: Tensor, held_out: Tensor | None, ridge: float) -> dict[str, nn.Module]:
    """A task's Gaussian and how likely it makes images of the task that it was not fitted on."""
    gaussian = fitted_gaussian(features, ridge)
    return {ROUTER: gaussian, BELONGING: measured_belonging(gaussian, features, held_out, ridge)}


def measured_belonging(
    gaussian: HostTensors, features: Tensor, held_out: Tensor | None, ridge: float
) -> HostTensors:
    """Median and spread of the log-likelihood of images that a Gaussian was not fitted on.

    These are the held-out images; without enough of them, each fold of the training images under a Gaussian
    of the others. A handful of images says nothing about a spread, and then every image belongs.
    """
    if held_out is not None and len(held_out) >= ENOUGH:
        values = _likelihood(held_out, gaussian)
    elif len(features) >= ENOUGH:
        fold = torch.arange(len(features)) % FOLDS
        parts = [(features[fold == one], features[fold != one]) for one in range(FOLDS)]
        values = torch.cat([_likelihood(own, fitted_gaussian(rest, ridge)) for own, rest in parts])
    else:
        return HostTensors(
            {"median": features.new_zeros(()).double(), "spread": torch.tensor(torch.inf).double()}
        )
    low, median, high = values.quantile(values.new_tensor([0.25, 0.5, 0.75]))
    spread = ((high - low) / NORMAL_QUARTILES).clamp(min=torch.finfo(torch.float32).eps)
    return HostTensors({"median": median, "spread": spread})


def stored_belonging() -> HostTensors:
    """Room for a stored median and spread."""
    return HostTensors({name: torch.zeros((), dtype=torch.float64) for name in ("median", "spread")})


def _likelihood(features: Tensor, gaussian: HostTensors) -> Tensor:
    """log N of features `(n,)` under one Gaussian."""
    return gaussian_log_likelihood(features.detach().cpu(), gaussian["mean"], gaussian["cholesky"])
