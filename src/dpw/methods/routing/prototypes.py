"""The mean feature of every class per task; the most similar class decides (DPeCLIP)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from dpw.methods.routing.route import Route, route_by_score

NOT_ASKED = -2.0  # below the range of a cosine: chosen only if there is nothing else


class Prototypes(NamedTuple):
    """What is known of one task."""

    prototypes: Tensor  # (C, E), unit rows
    threshold: Tensor  # the similarity from which on an image is accepted


def fit_prototypes(features: Tensor, labels: Tensor, classes: int, quantile: float) -> Prototypes:
    """Prototypes of normalised frozen features; `quantile` of the task's own images is rejected."""
    features, labels = features.detach().cpu(), labels.cpu()
    sums = features.new_zeros(classes, features.shape[1]).index_add(0, labels, features)
    similarity = left_out_similarity(features, labels, sums)
    # Without a second image of any class there is nothing to calibrate on, and nothing is rejected.
    threshold = similarity.quantile(quantile) if len(similarity) else features.new_tensor(-1.0)
    return Prototypes(F.normalize(sums, dim=-1), threshold)


class PrototypeRouter:
    """Chooses the task with the most similar prototype, accepted if it is similar enough."""

    def __init__(self, tasks: Callable[[], Sequence[Prototypes]]) -> None:
        """`tasks()` are the prototypes of all tasks."""
        self.tasks = tasks

    def route(self, features: Tensor, vote: bool = False, among: list[int] | None = None) -> Route:
        """The most similar task (of those in `among`) for every image."""
        features, tasks = features.detach().cpu(), self.tasks()
        similar = torch.stack([(features @ task.prototypes.cpu().T).amax(dim=1) for task in tasks], dim=1)
        if among is not None:
            similar[:, [index for index in range(len(tasks)) if index not in among]] = NOT_ASKED
        return route_by_score(similar, torch.stack([task.threshold.cpu() for task in tasks]), vote)


def left_out_similarity(features: Tensor, labels: Tensor, sums: Tensor) -> Tensor:
    """How similar each image is to its own task, its class prototype being formed without it.

    Images that are alone in their class are left out.
    """
    count = torch.bincount(labels, minlength=len(sums))[labels]
    without = F.normalize(sums[labels] - features, dim=-1)
    similarity = features @ F.normalize(sums, dim=-1).T
    own = (features * without).sum(dim=-1)
    similarity[torch.arange(len(labels)), labels] = own
    return similarity.amax(dim=1)[count > 1]
