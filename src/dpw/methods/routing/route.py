"""What a router decides for a batch of images."""

from typing import NamedTuple

import torch
from torch import Tensor


class Route(NamedTuple):
    """What was decided for a batch: for every image a task and the weight of its parameters."""

    task: Tensor  # (B,) index of the task whose parameters are used
    weight: Tensor  # (B,) weight for the image tower, from the image's own best task
    text_weight: Tensor  # (B,) weight for the text tower
    gate_weight: Tensor  # (B,) weight that decides whether prefixes are filtered
    confidence: Tensor  # (B, T) calibrated likelihood under every task
    log_confidence: Tensor | None = None  # (B, T) its logarithm, where it may be too small for a number


def route_by_score(scores: Tensor, threshold: Tensor | None = None, vote: bool = False) -> Route:
    """Choose the task with the highest score `(B, T)`, and accept it where the score reaches the threshold.

    Routers of this kind say yes or no to a task: the weight is one where its parameters are used and zero
    where plain CLIP answers. The threshold is `(T,)` or `(B, T)`. With `vote` the mean score of the batch
    decides for all its images.
    """
    scores = scores.detach().cpu()
    if vote:
        scores = scores.mean(dim=0, keepdim=True).expand_as(scores)
        single = threshold is None or threshold.dim() == 1
        threshold = threshold if single or threshold is None else threshold.mean(dim=0, keepdim=True)
    task = scores.argmax(dim=1)
    accepted = torch.ones_like(scores) if threshold is None else (scores >= threshold.cpu()).to(scores)
    weight = accepted.gather(1, task[:, None])[:, 0]
    return Route(task, weight, weight, weight, scores)


def majority(task: Tensor, tasks: int) -> Tensor:
    """The task most images chose; of equals the first."""
    return torch.bincount(task, minlength=tasks).argmax()


def rows_by_task(task: Tensor) -> list[tuple[int, Tensor]]:
    """The rows of a mixed batch that belong together, task by task."""
    return [(index, (task == index).nonzero().flatten()) for index in sorted(set(task.tolist()))]
