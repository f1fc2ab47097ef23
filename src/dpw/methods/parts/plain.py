"""Answering with one CLIP, whatever the task: questions differ only in their class texts."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from dpw.clip.backbone import Backbone
from dpw.data.images import Images
from dpw.methods.base import Method, ensemble
from dpw.methods.candidates import Candidates, ClassGroup

StoredTexts = Callable[[ClassGroup], Tensor | None]  # normalised class features (C, E) that were stored


class PlainAnswers:
    """CLIP's own classification by the model that answers now: the backbone, or one that was trained."""

    def __init__(
        self,
        method: Method,
        model: Callable[[], Backbone] | None = None,
        stored_texts: StoredTexts | None = None,
    ) -> None:
        """`model()` is the CLIP that answers; plain CLIP if it is left out.

        `stored_texts(group)` gives class features that were stored, or None.
        """
        self.method, self.stored_texts = method, stored_texts or (lambda _: None)
        self.model = model or (lambda: method.backbone)
        self._texts: dict[ClassGroup, Tensor] = {}

    def task_logits(self, pixels: Tensor) -> Tensor:
        """The model over the classes being learned, with the gradients of both towers."""
        model = self.model()
        images = F.normalize(model.encode_images(pixels), dim=-1)
        texts = F.normalize(model.encode_texts(self.method.training_tokens()), dim=-1)
        return model.logit_scale * images @ texts.T

    def logits(self, images: Images, candidates: Candidates) -> Tensor:
        """CLIP's own classification among any classes."""
        texts = torch.cat([self.text_features(group) for group in candidates.groups])
        return self.model().logit_scale * self._image_features(images) @ texts.T

    def route(self, images: Images) -> None:
        """Nobody asks which task an image belongs to."""

    def typicality(self, images: Images) -> None:
        """Nobody can tell how typical an image is."""

    def clear(self) -> None:
        """Drop kept text features, because the model's weights are about to change or have changed."""
        self._texts.clear()

    def _image_features(self, images: Images) -> Tensor:
        """Normalised image features; those of the frozen backbone are kept from question to question."""
        if self.model() is self.method.backbone:
            return self.method.frozen_features(images)
        return F.normalize(self.model().encode_images(images.pixels()), dim=-1)

    def text_features(self, group: ClassGroup) -> Tensor:
        """Normalised class features `(C, E)`, kept from call to call while nothing is being trained."""
        if group in self._texts:
            return self._texts[group].to(self.method.backbone.device)
        features = self.stored_texts(group)
        if features is None:
            features = ensemble(self.model().encode_texts(self.method.tokens(group)), len(group.templates))
        if not features.requires_grad and not self.method.trainable():
            self._texts[group] = features
        return features.to(self.method.backbone.device)


def plain_logits(method: Method, images: Images, candidates: Candidates) -> Tensor:
    """CLIP's own classification, for a method that has learned nothing yet."""
    texts = torch.cat([method.frozen_text_features(group) for group in candidates.groups])
    return method.backbone.logit_scale * method.frozen_features(images) @ texts.T
