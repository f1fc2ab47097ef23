"""RAIL: ridge regression from frozen features to one-hot labels, solved for all tasks at once."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from dpw.clip.backbone import Backbone
from dpw.data.images import Images
from dpw.data.task import Task
from dpw.methods.bank import HostTensors
from dpw.methods.base import Method, TaskImages
from dpw.methods.candidates import Candidates
from dpw.methods.config import MethodConfig
from dpw.methods.parts.plain import PlainAnswers
from dpw.methods.parts.ridge import gaussian_kernel, one_hot, ridge
from dpw.methods.registry import register

MAP_SEED = 42  # of the authors' random features
ROWS = 4096  # images whose random features are computed at once
SMALLEST = 1e-6  # scores below it are passed on linearly instead of as a logarithm


class RailConfig(MethodConfig):
    """The constants of the authors' code; the dual form has a penalty of its own."""

    kernel: Literal["primal", "dual"] = "primal"
    """Random features (primal) or a Gaussian kernel over all images (dual)."""
    width: int = Field(15000, ge=1)
    """Random features of the primal form."""
    penalty: float = Field(0.1, gt=0)
    """Ridge penalty of the primal form."""
    dual_penalty: float = Field(0.001, gt=0)
    """Ridge penalty of the dual form."""
    gamma: float = Field(0.1, gt=0)
    """Sharpness of the Gaussian kernel."""
    fusion: float = Field(0.8, ge=0, le=1)
    """Share of the regression in the answer about learned classes."""


def random_map(width: int, features: int) -> Tensor:
    """W_r `(width, features)`: uniform in ±1/√features, as a linear layer starts."""
    generator = torch.Generator().manual_seed(MAP_SEED)
    drawn: Tensor = torch.rand(width, features, generator=generator, dtype=torch.float64)
    return (2 * drawn - 1) / math.sqrt(features)


def hidden(features: Tensor, mapping: Tensor) -> Tensor:
    """φ(f) = ReLU(W_r f), `(n, width)`."""
    return torch.relu(features @ mapping.T)


def primal_weights(mapping: Tensor, tasks: Sequence[HostTensors], penalty: float) -> Tensor:
    """W = (Σ φφᵀ + λI)⁻¹ Σ φyᵀ over all images of all tasks, `(width, C)`; classes task by task."""
    parts = []
    gram = torch.zeros((), dtype=torch.float64)
    for task in tasks:
        features, targets = task["features"].double(), one_hot(task["labels"], int(task["classes"]))
        cross = torch.zeros((), dtype=torch.float64)
        for start in range(0, len(features), ROWS):
            mapped = hidden(features[start : start + ROWS], mapping)
            gram = gram + mapped.T @ mapped
            cross = cross + mapped.T @ targets[start : start + ROWS]
        parts.append(cross)
    return ridge(gram, torch.cat(parts, dim=1), penalty)


def dual_weights(tasks: Sequence[HostTensors], gamma: float, penalty: float) -> tuple[Tensor, Tensor]:
    """All stored features `(n, E)` and α = (K + λI)⁻¹Y over them, `(n, C)`."""
    features = torch.cat([task["features"] for task in tasks]).double()
    sizes = [int(task["classes"]) for task in tasks]
    first = [sum(sizes[:number]) for number in range(len(sizes))]
    labels = torch.cat([task["labels"] + start for task, start in zip(tasks, first, strict=True)])
    return features, ridge(gaussian_kernel(features, features, gamma), one_hot(labels, sum(sizes)), penalty)


class PrimalRegression(nn.Module):
    """From features to regression values of all classes by random features."""

    mapping: Tensor
    weights: Tensor

    def __init__(self, mapping: Tensor, weights: Tensor) -> None:
        """W_r `(width, E)` and W `(width, C)`."""
        super().__init__()
        self.register_buffer("mapping", mapping)
        self.register_buffer("weights", weights)

    def forward(self, features: Tensor) -> Tensor:
        """ReLU(W_r f) · W, `(n, C)`."""
        return hidden(features, self.mapping) @ self.weights


class DualRegression(nn.Module):
    """From features to regression values of all classes by a Gaussian kernel."""

    stored: Tensor
    alpha: Tensor

    def __init__(self, stored: Tensor, alpha: Tensor, gamma: float) -> None:
        """Features of all images `(n, E)` and α `(n, C)`."""
        super().__init__()
        self.gamma = gamma
        self.register_buffer("stored", stored)
        self.register_buffer("alpha", alpha)

    def forward(self, features: Tensor) -> Tensor:
        """k(f, X) · α, `(n, C)`."""
        return gaussian_kernel(features, self.stored, self.gamma) @ self.alpha


def fused(plain: Tensor, regression: Tensor, learned: Tensor, share: float) -> Tensor:
    """Scores over candidates: zero-shot probabilities, regression values, and which candidates are learned.

    Where plain CLIP's first choice is a learned class: (1 − β)·p + β·regression (0 for the others); else p.
    """
    spoken = (1 - share) * plain + share * torch.where(learned, regression, 0.0)
    return torch.where(learned[plain.argmax(dim=1)][:, None], spoken, plain)


def as_logits(scores: Tensor) -> Tensor:
    """Scores as logits in the same order: their logarithm, and its tangent where they are not positive."""
    return torch.where(scores > SMALLEST, scores.clamp(min=SMALLEST).log(), 0.0) + torch.where(
        scores > SMALLEST, 0.0, torch.tensor(SMALLEST).log() + (scores - SMALLEST) / SMALLEST
    )


class RailAnswers:
    """Plain CLIP, and where its first choice is a learned class, mostly the regression."""

    def __init__(self, method: "Rail") -> None:
        """Nothing is solved before the first question."""
        self.method, self.plain = method, PlainAnswers(method)
        self._solved: tuple[list[nn.Module], nn.Module] | None = None

    def task_logits(self, pixels: Tensor) -> Tensor:
        """Over the classes of the newest task."""
        return self.logits(Images.of(pixels), Candidates.among(self.method.training_group()))

    def logits(self, images: Images, candidates: Candidates) -> Tensor:
        """Fused scores, or plain CLIP's logits where no candidate is learned."""
        plain = self.plain.logits(images, candidates)
        tasks = self.method.by_name()
        known = [candidates.known_to(task.name, task.classes) for task, _ in tasks]
        learned = torch.zeros(plain.shape[1], dtype=torch.bool)
        learned[[column for columns in known for column in columns]] = True
        if not bool(learned.any()):
            return plain
        values = self.regression()(self.method.frozen_features(images).cpu().double())
        regression = torch.zeros(plain.shape, dtype=torch.float64)
        start = 0
        for (task, _), columns in zip(tasks, known, strict=True):
            own = values[:, start : start + len(task.classes)]
            regression[:, list(columns.keys())] += own[:, list(columns.values())]
            start += len(task.classes)
        probabilities = plain.cpu().double().softmax(dim=1)
        return as_logits(fused(probabilities, regression, learned, self.method.config.fusion)).to(plain)

    def regression(self) -> nn.Module:
        """Features to regression values of all classes; solved again only when tasks have changed."""
        modules = [module for _, module in self.method.by_name()]
        if self._solved is None or [id(one) for one in self._solved[0]] != [id(one) for one in modules]:
            self._solved = list(modules), self.method.solve(modules)
        return self._solved[1]

    def route(self, images: Images) -> None:
        """Nobody asks which task an image belongs to."""

    def typicality(self, images: Images) -> None:
        """Nobody can tell how typical an image is."""

    def clear(self) -> None:
        """Solve again, because tasks have moved."""
        self._solved = None
        self.plain.clear()


@register(mini={"width": 2000}, dual={"kernel": "dual"})
class Rail(Method):
    """Regression-based analytic incremental learning: no gradient, one pass over the training images.

    Frozen features of all tasks are mapped to one-hot labels by ridge regression. `primal` (default) first
    maps them by a fixed random layer of 15000 units with ReLU, penalty 0.1; preset `dual` uses a Gaussian
    kernel (γ 0.1, penalty 0.001). Where plain CLIP's first choice among the candidates is a learned class,
    the score is 0.2 times its probability plus 0.8 times the regression value; elsewhere plain CLIP answers,
    so an image of an unseen class that plain CLIP gets right is never touched.

    The authors update an inverse batch by batch. We keep the features and labels of every task, add up the
    sums in float64 in the order of task names and solve by Cholesky: the same solution (tests compare both to
    1e-9), in any order of tasks the same to the last bit, and a forgotten task leaves nothing behind. Keeping
    features is smaller than keeping a task's sums (15000² numbers) as long as it has fewer than 440000
    images. Training images are seen as at test time; the authors crop them slightly at random.
    """

    name = "rail"
    summary = "RAIL: closed-form ridge regression on frozen features, fused with zero-shot (NeurIPS 2024)"
    status = "from its code; training images without random crops"
    config_class = RailConfig
    config: RailConfig
    isolated = True
    trains = False

    def __init__(self, backbone: Backbone, config: RailConfig) -> None:
        """No task, no weights."""
        super().__init__(backbone, config)
        self.answers = RailAnswers(self)
        self._map: Tensor | None = None

    def new_module(self, task: Task, images: TaskImages) -> HostTensors:
        """The features and labels of the task's images, which is all that is learned."""
        features, labels = self.collect_features(images)
        return HostTensors(
            {"features": features, "labels": labels, "classes": torch.tensor(len(task.classes))}
        )

    def stored_module(self, tensors: Mapping[str, Tensor]) -> HostTensors:
        """Room for stored features and labels."""
        return HostTensors(tensors)

    def by_name(self) -> list[tuple[Any, HostTensors]]:
        """All tasks with what is kept of them, in an order that does not depend on when they were learned."""
        pairs: Any = zip(self.tasks, self.bank, strict=True)
        return sorted(pairs, key=lambda pair: pair[0].name)

    def solve(self, tasks: Sequence[HostTensors]) -> nn.Module:
        """From features to regression values of all classes."""
        config = self.config
        if config.kernel == "dual":
            return DualRegression(*dual_weights(tasks, config.gamma, config.dual_penalty), config.gamma)
        if self._map is None:
            self._map = random_map(config.width, self.backbone.feature_width)
        return PrimalRegression(self._map, primal_weights(self._map, tasks, config.penalty))

    def parameter_count(self) -> int:
        """The weights of all classes and the features they are computed from."""
        kept: Any = list(self.bank)
        images, classes = sum(len(one["labels"]) for one in kept), sum(int(one["classes"]) for one in kept)
        rows = self.config.width if self.config.kernel == "primal" else images
        return rows * classes + images * self.backbone.feature_width
