"""The task whose class texts are nearest decides, and class prototypes say how surely (CMAP, unconfirmed).

CMAP's authors published no code. The formulas are those of a third party's helper module: a router to be
measured beside the Gaussian, not CMAP itself.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from dpw.methods.bank import HostTensors
from dpw.methods.routing.kmeans import kmeans
from dpw.methods.routing.route import Route, majority

PROTOTYPES = 3  # centres of a class
BEST_CLASSES = 5  # whose mean score is an image's confidence
LOW, HIGH = 0.2, 0.8  # quantiles of the own images' confidence: no weight below, full weight above


def fit_text_prototypes(
    features: Tensor, labels: Tensor, texts: Tensor, generator: torch.Generator
) -> HostTensors:
    """What is kept of a task: its mean text τ, its class texts, their centres, the two thresholds.

    Args:
        features: normalised frozen features of the training images, `(n, E)`.
        labels: their classes, `(n,)`.
        texts: normalised frozen features of the class texts, `(C, E)`.
        generator: draws the first centres.
    """
    features, labels, texts = features.detach().cpu(), labels.cpu(), texts.detach().cpu()
    centres = torch.stack([_centres(features[labels == c], texts[c], generator) for c in range(len(texts))])
    task = {"text": F.normalize(texts.mean(dim=0), dim=0), "class_texts": texts, "centres": centres}
    own = task_confidence(HostTensors(task), features)
    return HostTensors(task | {"thresholds": own.quantile(own.new_tensor([LOW, HIGH]))})


def _centres(points: Tensor, text: Tensor, generator: torch.Generator) -> Tensor:
    """Three unit centres of a class; the first stands for missing ones, the text for a class of no image."""
    found = kmeans(points, PROTOTYPES, generator) if len(points) else text[None]
    padded = torch.cat([found, found[:1].expand(PROTOTYPES - len(found), -1)])
    return F.normalize(padded, dim=-1)


def task_confidence(task: HostTensors, features: Tensor) -> Tensor:
    """C `(B,)`: the mean of the five largest s_c = ½ max_k cos(f, p_ck) + ½ cos(f, e_c) within the task."""
    nearest = torch.einsum("be,cke->bck", features, task["centres"]).amax(dim=2)
    scores = (nearest + features @ task["class_texts"].T) / 2
    return scores.topk(min(BEST_CLASSES, scores.shape[1]), dim=1).values.mean(dim=1)


class TextPrototypeRouter:
    """Chooses the task t with the largest cos(f, τ_t); the task's class prototypes give the weight."""

    def __init__(self, tasks: Callable[[], Sequence[HostTensors]], gate: float) -> None:
        """`tasks()` are what is kept of all tasks; below the gate a task's prefixes are filtered."""
        self.tasks, self.gate = tasks, gate

    def measure(self, features: Tensor) -> Tensor:
        """What this router decides by: the features themselves, in main memory."""
        return features.detach().cpu()

    def route(self, features: Tensor, vote: bool = False) -> Route:
        """Choose a task for every image by its features `(B, E)`; see `decide`."""
        return self.decide(self.measure(features), vote)

    def decide(self, features: Tensor, vote: bool = False) -> Route:
        """Choose a task per image, or, with `vote`, one for the whole batch by majority."""
        tasks = self.tasks()
        task = torch.stack([features @ one["text"] for one in tasks], dim=1).argmax(dim=1)
        confidence = torch.stack([self._weight(one, features) for one in tasks], dim=1).double()
        weight = confidence.gather(1, task[:, None])[:, 0]
        if not vote:
            return Route(task, weight, weight, weight, confidence, confidence.log())
        mean, chosen = weight.mean().expand_as(weight), majority(task, len(tasks)).expand_as(task)
        return Route(chosen, weight, mean, mean, confidence, confidence.log())

    @staticmethod
    def _weight(task: HostTensors, features: Tensor) -> Tensor:
        """1 above the upper threshold, 0 below the lower one, C itself between them."""
        found = task_confidence(task, features)
        low, high = task["thresholds"]
        between = torch.where(found < low, torch.zeros_like(found), found.clamp(0, 1))
        return torch.where(found > high, torch.ones_like(found), between)

    def gates(self) -> Tensor:
        """The weight `(T,)` below which a task's prefixes are filtered: the paper's for all."""
        return torch.full((len(self.tasks()),), self.gate, dtype=torch.float64)

    def gate_of(self, task: HostTensors) -> float:  # noqa: ARG002
        """That weight for one task."""
        return self.gate

    def typicality(self, features: Tensor) -> Tensor | None:  # noqa: ARG002
        """None: these tasks keep nothing by which a stranger could be told."""
        return None
