"""Answering with the parameters of one task or as plain CLIP, switched for every image.

A router chooses one task for each image, or none; both towers then run with that task's parameters, or as
plain CLIP. Unlike in `weighted`, there is no weight in between, so text features are kept per task.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from dpw.clip.adaptation import Adaptation
from dpw.data.images import Images
from dpw.methods.base import Method
from dpw.methods.candidates import Candidates, ClassGroup
from dpw.methods.parts.plain import plain_logits
from dpw.methods.routing.route import Route, rows_by_task

PLAIN = -1  # in place of a task: plain CLIP answers
COSINE_RANGE = 2.0  # a class moved down by this stands behind every class that was not

Acts = Callable[[int], Adaptation]  # what a task adds to the image tower
EncodeGroup = Callable[[int, ClassGroup], Tensor]  # normalised class features (C, E) by one task
FindRoute = Callable[[Images], Route]
Choose = Callable[[Images, Candidates], Tensor]  # the task of every image, or PLAIN


class SwitchedAnswers:
    """Answers with the module of the task an image is taken for, or as plain CLIP where none is."""

    def __init__(
        self,
        method: Method,
        image: Acts,
        encode_group: EncodeGroup,
        find_route: FindRoute,
        *,
        choose: Choose | None = None,
        own_classes_only: bool = False,
    ) -> None:
        """`image` and `encode_group` are a task in the two towers, `find_route` the method's router.

        `choose` decides otherwise than by the route alone. With `own_classes_only` only the chosen task's
        classes can win a class-incremental question.
        """
        self.method, self.image_adaptation, self.encode_group = method, image, encode_group
        self.find_route, self.choose = find_route, choose or self._by_route
        self.own_classes_only = own_classes_only
        self._texts: dict[tuple[int, ClassGroup], Tensor] = {}

    def task_logits(self, pixels: Tensor) -> Tensor:
        """Both towers with the newest module, over the classes by their first template."""
        index = len(self.method.tasks) - 1
        texts = self.encode_group(index, self.method.training_group())
        return self.method.backbone.logit_scale * self.image_features(index, pixels) @ texts.T

    def route(self, images: Images) -> Route | None:
        """Which task each image was taken for."""
        return self.find_route(images) if self.method.tasks else None

    def _by_route(self, images: Images, candidates: Candidates) -> Tensor:  # noqa: ARG002
        """The task of every image, or `PLAIN` where its router rejects it."""
        route = self.find_route(images)
        return torch.where(route.weight > 0, route.task, PLAIN)

    def logits(self, images: Images, candidates: Candidates) -> Tensor:
        """Choose a task for every image, then compare both towers as that task has them."""
        if not self.method.tasks:
            return plain_logits(self.method, images, candidates)
        chosen = self.choose(images, candidates)
        scale = self.method.backbone.logit_scale
        features = self._features(images, chosen)
        cosines = scale.new_empty(len(images), len(candidates.classes))
        for index, rows in rows_by_task(chosen):
            cosines[rows] = torch.cat(self._cosines(index, features[rows], candidates), dim=1)
        return scale * cosines

    def _cosines(self, index: int, features: Tensor, candidates: Candidates) -> list[Tensor]:
        """Cosines of images of one task with every group of candidates."""
        if not (candidates.spans_domains and self.own_classes_only) or index == PLAIN:
            return [features @ self.text_features(index, group).T for group in candidates.groups]
        own = self.method.tasks[index].name
        behind = COSINE_RANGE if candidates.by_task else 0.0
        return [
            features @ self.text_features(index, group).T
            if group.name == own
            else features @ self.text_features(PLAIN, group).T - behind
            for group in candidates.groups
        ]

    def image_features(self, index: int, pixels: Tensor) -> Tensor:
        """Normalised image features by one task, or by plain CLIP."""
        if index == PLAIN:
            return self.method.frozen_image_features(pixels)
        backbone = self.method.backbone
        return F.normalize(backbone.encode_images(pixels, self.image_adaptation(index)), dim=-1)

    def text_features(self, index: int, group: ClassGroup) -> Tensor:
        """Normalised text features by one task, or by plain CLIP; kept while nothing is being trained."""
        method = self.method
        if (index, group) in self._texts:
            return self._texts[index, group].to(method.backbone.device)
        plain = index == PLAIN
        features = method.frozen_text_features(group) if plain else self.encode_group(index, group)
        if not method.training and not method.trainable():
            self._texts[index, group] = features.detach()
        return features

    def _features(self, images: Images, chosen: Tensor) -> Tensor:
        """Normalised features of images by their tasks, kept where they can never change."""

        def compute(rows: Sequence[int]) -> Tensor:
            """These images, task by task."""
            pixels, tasks = images.pixels(rows), chosen[list(rows)]
            backbone = self.method.backbone
            features = backbone.logit_scale.new_empty(len(tasks), backbone.feature_width)
            for index, own in rows_by_task(tasks):
                features[own] = self.image_features(index, pixels[own.to(pixels.device)])
            return features

        lasting = self.method.isolated
        ways = ["frozen" if one == PLAIN else one if lasting else None for one in chosen.tolist()]
        return self.method.recall(images, ways, compute)

    def typicality(self, images: Images) -> None:
        """Nobody can tell how typical an image is."""

    def clear(self) -> None:
        """Drop all kept text features, because tasks have moved or weights have changed."""
        self._texts.clear()
