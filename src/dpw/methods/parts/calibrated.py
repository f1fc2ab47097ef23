"""Frozen CLIP with a small bank of parameters per task, chosen and weighted for every image (DIKI, DPW).

A Gaussian over frozen features says which task an image belongs to and how surely; its parameters then act
in both towers with that weight, so an image of no known task stays close to plain CLIP.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from dpw.clip.adaptation import Adaptation
from dpw.clip.backbone import Backbone
from dpw.data.images import Images
from dpw.data.task import Task
from dpw.errors import InputError
from dpw.methods.base import LearnedTask, Method, TaskImages, ensemble
from dpw.methods.candidates import Candidates, ClassGroup
from dpw.methods.config import RoutedConfig
from dpw.methods.feature_cache import FeatureCache
from dpw.methods.parts.weighted_texts import WeightedTexts
from dpw.methods.routing.gaussian import GaussianRouter, Route

TEXT_ROWS = 2048  # prompts that go through the text tower at once


class CalibratedConfig(RoutedConfig):
    """Settings of task identification and of the per-image text weight."""

    ridge: float = Field(1e-7, gt=0)
    fit_drop_last: bool = False
    gate: float = Field(0.825, ge=0, le=1)
    text_weight: Literal["exact", "grid"] = "grid"
    grid_points: int = Field(32, ge=2)


class CalibratedMethod(Method):
    """Learns one module of the bank per task and answers with the module each image is routed to."""

    config: CalibratedConfig
    routes = True
    isolated = True

    def __init__(self, backbone: Backbone, config: CalibratedConfig) -> None:
        """Start with an empty bank and a router that knows no task."""
        super().__init__(backbone, config)
        self.bank = nn.ModuleList()
        self.router = GaussianRouter(backbone.feature_width)
        self.texts = WeightedTexts(self.encode_texts, config.text_weight, config.grid_points)

    # ------------------------------------------------------------------- what a method of this kind brings

    @abstractmethod
    def new_module(self, task: Task, features: Tensor, labels: Tensor) -> nn.Module:
        """Fresh parameters for a task, given the frozen features and labels of its training images."""

    @abstractmethod
    def image_adaptation(self, index: int, weight: Tensor | None, filtered: Tensor | None) -> Adaptation:
        """What task `index` adds to the image tower; weight None is training, where it counts fully."""

    @abstractmethod
    def text_adaptation(self, index: int, weight: Tensor | None, filtered: Tensor | None) -> Adaptation:
        """What task `index` adds to the text tower; one weight for each copy of the class list."""

    # ------------------------------------------------------------------------------------ learning a task

    def begin_task(self, task: Task, images: TaskImages) -> None:
        """Fit the task's Gaussian and make its module."""
        super().begin_task(task, images)
        features, labels = self.collect_features(images)
        self.router.fit(features[self._fit_rows(len(features))], self.config.ridge)
        module = self.new_module(task, features, labels)
        self.bank.append(module.to(self.backbone.device))

    def _fit_rows(self, count: int) -> Tensor:
        """All images; the authors' loader instead shuffles them and drops the last incomplete batch."""
        if not self.config.fit_drop_last:
            return torch.arange(count)
        generator = torch.Generator().manual_seed(self.config.seed + len(self.tasks))
        batch = self.config.training.batch_size
        return torch.randperm(count, generator=generator)[: max(count // batch, 1) * batch]

    def task_logits(self, pixels: Tensor) -> Tensor:
        """Both towers with the newest module at full weight."""
        index = len(self.tasks) - 1
        images = self.backbone.encode_images(pixels, self.image_adaptation(index, None, None))
        texts = self.backbone.encode_texts(self.training_tokens(), self.text_adaptation(index, None, None))
        return self.backbone.logit_scale * F.normalize(images, dim=-1) @ F.normalize(texts, dim=-1).T

    def abandon(self, learned: int, shared: Mapping[str, Tensor]) -> None:
        """Also drop the module and the Gaussian of the abandoned task."""
        super().abandon(learned, shared)
        del self.bank[learned:], self.router.means[learned:], self.router.choleskys[learned:]

    # ------------------------------------------------------------------------------------------ answering

    def route(self, images: Images) -> Route | None:
        """Identify the task of every image from its frozen features."""
        if not self.tasks:
            return None
        return self.router.route(self.frozen_features(images), vote=self.config.decision == "batch-vote")

    def frozen_features(self, images: Images) -> Tensor:
        """Normalised features of plain CLIP, which the router looks at; once for every batch."""
        return images.once("frozen", lambda: self._frozen_features(images))

    def _frozen_features(self, images: Images) -> Tensor:
        """From the memory where it knows them."""
        if self.feature_cache is None or images.keys is None:
            return self.frozen_image_features(images.pixels())
        keys = [("frozen", key) for key in images.keys]
        rows = self.feature_cache.recall(keys, lambda rows: self.frozen_image_features(images.pixels(rows)))
        return rows.to(self.backbone.device)

    def logits(self, images: Images, candidates: Candidates) -> Tensor:
        """Route every image, then compare its features with the texts its weights give."""
        if not self.tasks:
            texts = torch.cat([self.frozen_text_features(group) for group in candidates.groups])
            return self.backbone.logit_scale * self.frozen_features(images) @ texts.T
        if candidates.by_task:
            return self._logits_over_tasks(images, candidates)
        route = self.route(images)
        assert route is not None
        features = self.adapted_features(images, route)
        logits = features.new_empty(len(images), len(candidates.classes))
        for index, rows in rows_by_task(route.task):
            weight, filtered = route.text_weight[rows], route.gate_weight[rows] < self.config.gate
            chosen = features[rows]
            parts = [
                self.texts.cosines(chosen, index, group, weight, filtered) for group in candidates.groups
            ]
            logits[rows] = torch.cat(parts, dim=1).to(logits)
        return self.backbone.logit_scale * logits

    def _logits_over_tasks(self, images: Images, candidates: Candidates) -> Tensor:
        """Class-incremental: each task's classes by its own parameters, weighted by its confidence.

        Always decided per image, as the authors do it with batches of one.
        """
        route = self.router.route(self.frozen_features(images))
        features = self.adapted_features(images, route)
        parts = []
        for group in candidates.groups:
            index = self._index_of(group.name)
            weight = route.confidence[:, index]
            cosines = self.texts.cosines(features, index, group, weight, weight < self.config.gate)
            parts.append(cosines * weight.to(cosines)[:, None])
        return self.backbone.logit_scale * torch.cat(parts, dim=1)

    def adapted_features(self, images: Images, route: Route) -> Tensor:
        """Normalised image features, each image with the module it was routed to, in the given order."""

        def compute(rows: list[int]) -> Tensor:
            """Adapt only these images, grouped by task."""
            return self._adapt(images.pixels(rows), *(part[rows] for part in parts))

        parts = route.task, route.weight, route.gate_weight < self.config.gate
        if self.feature_cache is None or images.keys is None:
            return compute(list(range(len(images))))
        # A task's module never changes once it is learned, so the choice and the weight say everything.
        choices = zip(*(part.tolist() for part in parts), images.keys, strict=True)
        return self.feature_cache.recall(list(choices), compute).to(self.backbone.device)

    def _adapt(self, pixels: Tensor, task: Tensor, weight: Tensor, filtered: Tensor) -> Tensor:
        """Run a mixed batch through the image tower task by task, and put it back in order."""
        scale = self.backbone.logit_scale
        features = scale.new_empty(len(pixels), self.backbone.feature_width)
        for index, rows in rows_by_task(task):
            adaptation = self.image_adaptation(
                index, weight[rows].to(features), filtered[rows].to(features.device)
            )
            encoded = self.backbone.encode_images(pixels[rows.to(pixels.device)], adaptation)
            features[rows] = F.normalize(encoded, dim=-1).to(features)
        return features

    def encode_texts(self, index: int, group: ClassGroup, weight: Tensor, filtered: Tensor) -> Tensor:
        """Class features `(W, C, E)` by task `index` for each of W text weights."""
        tokens = self.tokens(group)
        device, dtype = self.backbone.device, self.backbone.logit_scale.dtype
        encoded = []
        at_once = max(TEXT_ROWS // len(tokens), 1)
        for start in range(0, len(weight), at_once):
            rows = slice(start, start + at_once)
            adaptation = self.text_adaptation(
                index, weight[rows].to(device, dtype), filtered[rows].to(device)
            )
            by_weight = self.backbone.encode_copies(tokens, len(weight[rows]), adaptation)
            encoded += [ensemble(one, len(group.templates)) for one in by_weight]
        return torch.stack(encoded)

    # ----------------------------------------------------------------------------------- state, as tensors

    def task_state(self, index: int) -> dict[str, Tensor]:
        """The module of the bank and the task's Gaussian."""
        gaussian = {"router.mean": self.router.means[index], "router.cholesky": self.router.choleskys[index]}
        return {**self.bank[index].state_dict(), **gaussian}

    def load_task(self, task: LearnedTask, tensors: Mapping[str, Tensor]) -> None:
        """Append a task: its module is rebuilt from the shapes of its tensors."""
        own = {name: tensor for name, tensor in tensors.items() if not name.startswith("router.")}
        module = self.stored_module(own).requires_grad_(requires_grad=False)
        self.router.add(tensors["router.mean"], tensors["router.cholesky"])
        self.bank.append(module.to(self.backbone.device))
        self.tasks.append(task)

    @abstractmethod
    def stored_module(self, tensors: Mapping[str, Tensor]) -> nn.Module:
        """The module of one task, from its stored tensors."""

    def forget(self, index: int) -> None:
        """Drop one task; the others are not touched."""
        self.router.remove(index)
        del self.bank[index], self.tasks[index]
        self.clear_memory()

    def clear_memory(self) -> None:
        """Drop all remembered features, because tasks have moved or changed."""
        self.texts.clear()
        if self.feature_cache is not None:
            self.feature_cache = FeatureCache()

    def _index_of(self, name: str) -> int:
        """Position of a learned task."""
        if name not in self.task_names:
            raise InputError(f"task {name!r} is not learned; learned are {', '.join(self.task_names)}")
        return self.task_names.index(name)


def rows_by_task(task: Tensor) -> Iterator[tuple[int, Tensor]]:
    """The rows of a mixed batch that belong together, task by task."""
    for index in sorted(set(task.tolist())):
        yield index, (task == index).nonzero().flatten()
