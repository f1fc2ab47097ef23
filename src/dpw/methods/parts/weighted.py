"""Answering with the parameters of the task an image was routed to, weighted by how surely (DIKI, DPW).

A Gaussian over frozen features says which task an image belongs to and how surely; its parameters then act
in both towers with that weight, so an image of no known task stays close to plain CLIP.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from dpw.clip.adaptation import Adaptation
from dpw.data.images import Images
from dpw.data.reference import seeded
from dpw.methods.bank import HostTensors
from dpw.methods.base import Method, TaskImages, ensemble
from dpw.methods.candidates import Candidates, ClassGroup
from dpw.methods.config import RoutedConfig
from dpw.methods.parts.by_parts import goes_by_parts, loss_by_parts, part_sizes
from dpw.methods.parts.plain import plain_logits
from dpw.methods.parts.weighted_texts import Kept, WeightedTexts, points_of
from dpw.methods.routing.covariance import CENTRES
from dpw.methods.routing.estimation import diagonal_target, projection_target
from dpw.methods.routing.gaussian import (
    TEXTS,
    GaussianRouter,
    fitted_gaussian,
    sample_gaussian,
    stored_gaussian,
)
from dpw.methods.routing.ranking import weighted_logits
from dpw.methods.routing.route import Route, rows_by_task
from dpw.methods.routing.text_prototypes import TextPrototypeRouter, fit_text_prototypes

TEXT_ROWS = 2048  # prompts that go through the text tower at once
POINT_NUMBERS = 2**13  # prompts times width below which a core spends its time on calls
ROUTER = "router"  # under which name a task's module holds what its router keeps


class WeightedConfig(RoutedConfig):
    """Settings of task identification and of the per-image text weight.

    `covariance` and `weights` are the paper's where its conditions hold: the sample covariance with twice as
    many images as features have numbers, and σ(ℓ/width − 1) with the gate 0.825 for features of 512 numbers.
    Elsewhere `fitted` finds them on left-out images; `sample` and `paper` keep the authors' everywhere.
    `router` replaces the Gaussians by the nearest mean class text and class prototypes (as in CMAP).
    """

    absent: ClassVar[Mapping[str, Any]] = {
        "covariance": "sample",
        "weights": "paper",
        "router_features": "image",
        "router": "gaussian",
    }

    router: Literal["gaussian", "text-prototypes"] = "gaussian"
    """What finds an image's task: a Gaussian for each, or their class texts and prototypes."""
    ridge: float = Field(1e-7, gt=0)
    """Added to the diagonal of a task's covariance."""
    covariance: Literal["fitted", "sample", "classes"] = "fitted"
    """A task's covariance: fitted where images are few, always the sample covariance, or fitted, and within
    classes where left-out images are likelier so.
    """
    weights: Literal["fitted", "paper"] = "fitted"
    """From likelihood to weight: fitted on left-out images, or always the paper's sigmoid."""
    router_features: Literal["image", "image+patches"] = "image"
    """What the task is found by: CLIP's image feature, or also its mean patch token."""
    fit_drop_last: bool = False
    """Leave the last incomplete batch out of a task's Gaussian, as the authors' code does."""
    gate: float = Field(0.825, ge=0, le=1)
    """Weight of an image below which prefixes are filtered."""
    text_weight: Literal["exact", "grid"] = "grid"
    """Encode prompts for every weight, or read them from a grid of weights."""
    grid_points: int = Field(32, ge=2, le=100_000)
    """Weights in that grid."""


class Acts(Protocol):
    """What a task adds to a tower; `weight` and `filtered` are per sample, or None in training."""

    def __call__(self, index: int, weight: Tensor | None, filtered: Tensor | None) -> Adaptation:
        """What task `index` adds; without a weight it counts fully and nothing is cut."""
        ...


class WeightedAnswers:
    """Routes every image by the tasks' Gaussians and answers with the weighted parameters of its task.

    Each module of the method's bank holds its Gaussian under the name `router`.
    """

    def __init__(self, method: Method, image: Acts, text: Acts) -> None:
        """`image(index, weight, filtered)` and `text(...)` give what a task adds to each tower."""
        assert isinstance(method.config, WeightedConfig)
        self.method, self.config = method, method.config
        self.image_adaptation, self.text_adaptation = image, text
        self.router: GaussianRouter | TextPrototypeRouter
        if self.config.router == "text-prototypes":
            self.router = TextPrototypeRouter(self._kept, self.config.gate)
        else:
            self.router = GaussianRouter(self._kept, self.config.gate, self.config.weights == "fitted")
        self.texts = WeightedTexts(
            self.encode_texts,
            self.config.text_weight,
            self.config.grid_points,
            self._stored_texts,
            self._points_at_once,
        )

    def _kept(self) -> Sequence[HostTensors]:
        """What the router keeps of all tasks: their Gaussians."""
        bank = self.method.bank
        return [bank.part(index, ROUTER) for index in range(len(bank))]

    def fit(self, images: TaskImages) -> HostTensors:
        """The Gaussian of a new task, from the frozen features of its training images."""
        return self.fit_seen(*self.collect(images))

    def collect(self, images: TaskImages) -> tuple[Tensor, Tensor]:
        """What the router sees of all images of a new task, frozen features first, and their labels."""
        if self._sees_features_alone:
            return self.method.collect_features(images)
        with torch.no_grad():
            pairs = [(self._router_features(pixels), labels) for pixels, labels in images.batches()]
        features, labels = (torch.cat(part) for part in zip(*pairs, strict=True))
        return features, labels

    def fit_seen(self, features: Tensor, labels: Tensor) -> HostTensors:
        """The same from what `collect` gave."""
        labels = labels.cpu()
        if self.config.router == "text-prototypes":
            return self._fit_text_prototypes(features, labels)
        kept = self._fit_rows(len(features))
        rows, own = features[kept], labels[kept] if self.config.covariance == "classes" else None
        if self.config.covariance == "sample":
            found = sample_gaussian(rows, self.config.ridge)
        else:
            found = fitted_gaussian(rows, self._target(rows), self.config.ridge, own)
        ridge = float(found.tensors.get("ridge", torch.zeros(())))
        kind = "sample" if ridge == 0 else "regularised"
        details = {"covariance": kind, "ridge": ridge, "images": len(rows)}
        if CENTRES in found.tensors:
            details["means"] = len(found[CENTRES])
        self.method.tasks[-1].details["router"] = details
        return found

    def _fit_text_prototypes(self, features: Tensor, labels: Tensor) -> HostTensors:
        """The text router's part of a new task, from its class texts and training images."""
        method, task = self.method, self.method.tasks[-1]
        with torch.no_grad():
            texts = F.normalize(method.backbone.encode_texts(method.training_tokens()), dim=-1)
        task.details["router"] = {"kind": "text-prototypes", "images": len(labels)}
        generator = seeded(self.config.seed, task.name, "text prototypes")
        return fit_text_prototypes(features, labels, texts, generator)

    def _target(self, features: Tensor) -> Tensor:
        """Towards which covariance few images are regularised."""
        if self.config.router_features != "image":
            return diagonal_target(features)
        return projection_target(*self.method.backbone.image_projection())

    @property
    def _sees_features_alone(self) -> bool:
        """Whether the router sees nothing but CLIP's image feature, as the text router always does."""
        return self.config.router_features == "image" or self.config.router == "text-prototypes"

    def _router_features(self, pixels: Tensor) -> Tensor:
        """CLIP's normalised image feature and its mean patch token."""
        features, patches = self.method.backbone.encode_with_patches(pixels)
        return torch.cat([F.normalize(features, dim=-1), patches], dim=-1)

    def router_features(self, images: Images) -> Tensor:
        """What the router sees of a question's images, in main memory, where it decides; once a batch."""
        return images.once("router on the host", lambda batch: self._seen_by_router(batch).detach().cpu())

    def _seen_by_router(self, images: Images) -> Tensor:
        """What the router sees, where the model is."""
        if self._sees_features_alone:
            return self.method.frozen_features(images)

        def compute(batch: Images) -> Tensor:
            """Only those that were never seen."""
            ways = [self.config.router_features] * len(batch)
            return self.method.recall(batch, ways, lambda rows: self._router_features(batch.pixels(rows)))

        return images.once("router", compute)

    def measured(self, images: Images) -> Tensor:
        """What the router decides by, such as the likelihood of each image under each task; once a batch."""
        return images.once("measured", lambda batch: self.router.measure(self.router_features(batch)))

    def typicality(self, images: Images) -> Tensor | None:
        """How typical every image is of every task `(B, T)`, between 0 and 1; None if no task can tell."""
        return self.router.typicality(self.measured(images)) if self.method.tasks else None

    def _fit_rows(self, count: int) -> Tensor:
        """All images; the authors' loader instead shuffles them and drops the last incomplete batch."""
        if not self.config.fit_drop_last:
            return torch.arange(count)
        generator = seeded(self.config.seed, self.method.task_names[-1], "fitted images")
        batch = self.config.training.batch_size
        return torch.randperm(count, generator=generator)[: max(count // batch, 1) * batch]

    def task_logits(self, pixels: Tensor) -> Tensor:
        """Both towers with the newest module at full weight."""
        return self._known_logits(pixels, self._training_texts())

    def _known_logits(self, pixels: Tensor, texts: Tensor) -> Tensor:
        """Images with the newest module against given texts of length one."""
        backbone, index = self.method.backbone, len(self.method.tasks) - 1
        images = backbone.encode_images(pixels, self.image_adaptation(index, None, None))
        return backbone.logit_scale * F.normalize(images, dim=-1) @ texts.T

    def _training_texts(self) -> Tensor:
        """Texts of the classes being learned `(C, E)` with the newest module."""
        adaptation = self.text_adaptation(len(self.method.tasks) - 1, None, None)
        return F.normalize(
            self.method.backbone.encode_texts(self.method.training_tokens(), adaptation), dim=-1
        )

    def loss(self, pixels: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy over the classes being learned; a large batch goes through a few images at a time."""
        smoothing = self.config.training.label_smoothing
        if not goes_by_parts(self.method.backbone, pixels):
            return F.cross_entropy(self.task_logits(pixels), labels, label_smoothing=smoothing)

        def summed(some: Tensor, own: Tensor, texts: Tensor) -> Tensor:
            """The sum over a few images."""
            logits = self._known_logits(some, texts)
            return F.cross_entropy(logits, own, label_smoothing=smoothing, reduction="sum")

        sizes = part_sizes(self.method.backbone, len(pixels))
        learned = list(self.method.trainable().values())
        return loss_by_parts(summed, pixels, labels, self._training_texts(), learned, sizes)

    # ------------------------------------------------------------------------------------------ answering

    def route(self, images: Images) -> Route | None:
        """Identify the task of every image from its frozen features."""
        if not self.method.tasks:
            return None
        return self.router.decide(self.measured(images), vote=self.config.decision == "batch-vote")

    def filtered(self, route: Route) -> Tensor:
        """Which images are so unsure `(B,)` that their task's prefixes are filtered."""
        return route.gate_weight < self.router.gates()[route.task]

    def logits(self, images: Images, candidates: Candidates) -> Tensor:
        """Route every image, then compare its features with the texts its weights give."""
        if not self.method.tasks:
            return plain_logits(self.method, images, candidates)
        if candidates.by_task:
            return self._logits_over_tasks(images, candidates)
        route = self.route(images)
        assert route is not None
        features, unsure = self.adapted_features(images, route), self.filtered(route)
        logits = features.new_empty(len(images), len(candidates.classes))
        for index, rows in rows_by_task(route.task):
            weight, filtered, chosen = route.text_weight[rows], unsure[rows], features[rows]
            parts = [
                self.texts.cosines(chosen, index, group, weight, filtered) for group in candidates.groups
            ]
            logits[rows] = torch.cat(parts, dim=1).to(logits)
        return self.method.backbone.logit_scale * logits

    def _logits_over_tasks(self, images: Images, candidates: Candidates) -> Tensor:
        """Class-incremental: each task's classes by its own parameters, weighted by its confidence.

        Always decided per image, as the authors do it with batches of one.
        """
        route, gates = self.router.decide(self.measured(images)), self.router.gates()
        assert route.log_confidence is not None
        features = self.adapted_features(images, route)
        cosines, logs = [], []
        for group in candidates.groups:
            index = self.method.index_of(group.name)
            weight = route.confidence[:, index]
            cosines.append(self.texts.cosines(features, index, group, weight, weight < gates[index]))
            logs.append(route.log_confidence[:, index, None].expand(-1, len(group.classes)))
        return weighted_logits(
            torch.cat(cosines, dim=1), torch.cat(logs, dim=1), self.method.backbone.logit_scale
        )

    def adapted_features(self, images: Images, route: Route) -> Tensor:
        """Normalised image features, each image with the module it was routed to, in the given order."""

        def compute(rows: Sequence[int]) -> Tensor:
            """Adapt only these images, grouped by task."""
            return self._adapt(images.pixels(rows), *(part[list(rows)] for part in parts))

        parts = route.task, route.weight, self.filtered(route)
        # A task's module never changes once it is learned, so the choice and the weight say everything.
        choices = list(zip(*(part.tolist() for part in parts), strict=True))
        return self.method.recall(images, choices, compute)

    def _adapt(self, pixels: Tensor, task: Tensor, weight: Tensor, filtered: Tensor) -> Tensor:
        """Run a mixed batch through the image tower task by task, and put it back in order."""
        backbone = self.method.backbone
        features = backbone.logit_scale.new_empty(len(pixels), backbone.feature_width)
        for index, rows in rows_by_task(task):
            adaptation = self.image_adaptation(
                index, weight[rows].to(features), filtered[rows].to(features.device)
            )
            encoded = backbone.encode_images(pixels[rows.to(pixels.device)], adaptation)
            features[rows] = F.normalize(encoded, dim=-1).to(features)
        return features

    def encode_texts(self, index: int, group: ClassGroup, weight: Tensor, filtered: Tensor) -> Tensor:
        """Class features `(W, C, E)` by task `index` for each of W text weights."""
        backbone, tokens = self.method.backbone, self.method.tokens(group)
        device, dtype = backbone.device, backbone.logit_scale.dtype
        encoded = []
        at_once = max(TEXT_ROWS // len(tokens), 1)
        for start in range(0, len(weight), at_once):
            rows = slice(start, start + at_once)
            adaptation = self.text_adaptation(
                index, weight[rows].to(device, dtype), filtered[rows].to(device)
            )
            by_weight = backbone.encode_copies(tokens, len(weight[rows]), adaptation)
            encoded += [ensemble(one, len(group.templates)) for one in by_weight]
        return torch.stack(encoded)

    def _points_at_once(self, group: ClassGroup) -> int:
        """How many weights of the grid go through the text tower together: several only if it is small."""
        numbers = len(self.method.tokens(group)) * self.method.backbone.text_shape.width
        return max(1, POINT_NUMBERS // numbers)

    def keep_texts(self) -> None:
        """Store text features of the newest task's own classes with it, so that its first answer is quick."""
        if self.config.text_weight != "grid":
            return
        index = len(self.method.tasks) - 1
        with torch.no_grad():
            grid = self.grid_of_texts(index, self.method.tasks[-1].group())
        self.method.bank.part(index, ROUTER).tensors[TEXTS] = grid.detach().cpu().clone()

    def grid_of_texts(self, index: int, group: ClassGroup) -> Tensor:
        """Class features `(P, C, E)` by task `index` at all points of the grid, stored ones as they are."""
        gate = self.router.gate_of(self.method.bank.part(index, ROUTER))
        kept = self._stored_texts(index, group)
        if kept is None:
            return self.texts.grid(index, group, gate)
        return torch.stack([kept[point] for point in points_of(self.config.grid_points, gate)])

    def _stored_texts(self, index: int, group: ClassGroup) -> Kept | None:
        """What `keep_texts` stored for a group; models of earlier versions have nothing."""
        task = self.method.bank.part(index, ROUTER)
        kept = task.tensors.get(TEXTS)
        if kept is None or group != self.method.tasks[index].group():
            return None
        points = points_of(self.config.grid_points, self.router.gate_of(task))
        if len(points) != len(kept):
            return None
        return dict(zip(points, kept.to(self.method.backbone.device).unbind(0), strict=True))

    def clear(self) -> None:
        """Drop all kept text features, because tasks have moved or changed."""
        self.texts.clear()


def stored_router(tensors: Mapping[str, Tensor]) -> HostTensors:
    """What a router kept of a task, from its stored tensors: a Gaussian unless there are class texts."""
    return HostTensors(tensors) if "class_texts" in tensors else stored_gaussian(tensors)
