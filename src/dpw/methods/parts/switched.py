"""Frozen CLIP with parameters per task that are switched on or off for every image.

A router chooses one task for each image, or none; both towers then run with that task's parameters, or as
plain CLIP. Unlike in `calibrated`, there is no weight in between, so text features are kept per task.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dpw.clip.adaptation import Adaptation
from dpw.clip.backbone import Backbone
from dpw.data.images import Images
from dpw.data.task import Task
from dpw.methods.base import Method, TaskImages
from dpw.methods.candidates import Candidates, ClassGroup
from dpw.methods.config import RoutedConfig
from dpw.methods.feature_cache import FeatureCache
from dpw.methods.parts.calibrated import rows_by_task

PLAIN = -1  # in place of a task: plain CLIP answers
COSINE_RANGE = 2.0  # a class moved down by this stands behind every class that was not


class SwitchedMethod(Method):
    """Learns one module of the bank per task, and answers with that of the task an image is taken for."""

    config: RoutedConfig
    routes = True
    own_classes_only: ClassVar[bool] = False  # class-incremental: only the chosen task's classes can win

    def __init__(self, backbone: Backbone, config: RoutedConfig) -> None:
        """Start with an empty bank."""
        super().__init__(backbone, config)
        self.bank = nn.ModuleList()
        self._texts: dict[tuple[int, ClassGroup], Tensor] = {}

    # ------------------------------------------------------------------- what a method of this kind brings

    @abstractmethod
    def image_adaptation(self, index: int) -> Adaptation:
        """What task `index` adds to the image tower."""

    @abstractmethod
    def encode_group(self, index: int, group: ClassGroup) -> Tensor:
        """Normalised text features `(C, E)` of a group by task `index`."""

    # ------------------------------------------------------------------------------------ learning a task

    def begin_task(self, task: Task, images: TaskImages) -> None:
        """Remember the task; kept text features may become wrong from here on."""
        super().begin_task(task, images)
        self._texts.clear()

    def end_task(self, images: TaskImages) -> None:
        """Freeze everything; text features may be kept again."""
        super().end_task(images)
        self._texts.clear()

    def abandon(self, learned: int, shared: Mapping[str, Tensor]) -> None:
        """Also drop the module of the abandoned task."""
        super().abandon(learned, shared)
        del self.bank[learned:]
        self.forget_features()

    def task_logits(self, pixels: Tensor) -> Tensor:
        """Both towers with the newest module, over the classes by their first template."""
        index = len(self.tasks) - 1
        task = self.tasks[index]
        group = ClassGroup(task.name, task.classes, task.templates[:1])
        texts = self.encode_group(index, group)
        return self.backbone.logit_scale * self.image_features(index, pixels) @ texts.T

    # ------------------------------------------------------------------------------------------ answering

    def choose(self, images: Images, candidates: Candidates) -> Tensor:  # noqa: ARG002
        """The task of every image, or `PLAIN`."""
        route = self.route(images)
        assert route is not None
        return torch.where(route.weight > 0, route.task, PLAIN)

    def logits(self, images: Images, candidates: Candidates) -> Tensor:
        """Choose a task for every image, then compare both towers as that task has them."""
        if not self.tasks:
            return plain_logits(self, images, candidates)
        chosen = self.choose(images, candidates)
        scale = self.backbone.logit_scale
        cosines = scale.new_empty(len(images), len(candidates.classes))
        for index, rows in rows_by_task(chosen):
            features = self._features_of(index, images, rows.tolist())
            cosines[rows] = torch.cat(self.cosines(index, features, candidates), dim=1)
        return scale * cosines

    def cosines(self, index: int, features: Tensor, candidates: Candidates) -> list[Tensor]:
        """Cosines of images of one task with every group of candidates."""
        if not (candidates.by_task and self.own_classes_only) or index == PLAIN:
            return [features @ self.text_features(index, group).T for group in candidates.groups]
        own = self.tasks[index].name
        return [
            features @ self.text_features(index, group).T
            if group.name == own
            else features @ self.text_features(PLAIN, group).T - COSINE_RANGE
            for group in candidates.groups
        ]

    def image_features(self, index: int, pixels: Tensor) -> Tensor:
        """Normalised image features by one task, or by plain CLIP."""
        if index == PLAIN:
            return self.frozen_image_features(pixels)
        return F.normalize(self.backbone.encode_images(pixels, self.image_adaptation(index)), dim=-1)

    def text_features(self, index: int, group: ClassGroup) -> Tensor:
        """Normalised text features by one task, or by plain CLIP; kept while nothing is being trained."""
        if (index, group) in self._texts:
            return self._texts[index, group].to(self.backbone.device)
        plain = index == PLAIN
        features = self.frozen_text_features(group) if plain else self.encode_group(index, group)
        if not self.training and not self.trainable():
            self._texts[index, group] = features.detach()
        return features

    def frozen_features(self, images: Images) -> Tensor:
        """Normalised features of plain CLIP, which most routers look at."""
        return self._features_of(PLAIN, images, list(range(len(images))))

    def _features_of(self, index: int, images: Images, rows: list[int]) -> Tensor:
        """Normalised features of some images by one task, remembered where they can never change."""
        lasting = index == PLAIN or self.isolated
        if self.feature_cache is None or images.keys is None or not lasting:
            return self.image_features(index, images.pixels(rows))
        keys = [(index, images.keys[row]) for row in rows]

        def compute(places: list[int]) -> Tensor:
            """Only those that were never seen."""
            return self.image_features(index, images.pixels([rows[place] for place in places]))

        return self.feature_cache.recall(keys, compute).to(self.backbone.device)

    def forget_features(self) -> None:
        """Drop all kept features, because tasks have moved or weights have changed."""
        self._texts.clear()
        if self.feature_cache is not None:
            self.feature_cache = FeatureCache()


def plain_logits(method: Method, images: Images, candidates: Candidates) -> Tensor:
    """CLIP's own classification, for a method that has learned nothing yet."""
    texts = torch.cat([method.frozen_text_features(group) for group in candidates.groups])
    return method.backbone.logit_scale * method.frozen_image_features(images.pixels()) @ texts.T
