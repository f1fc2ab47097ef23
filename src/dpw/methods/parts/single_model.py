"""Methods with one CLIP that answers for every image, whatever the task."""

import torch
from torch import Tensor
from torch.nn import functional as F

from dpw.clip.backbone import Backbone
from dpw.data.images import Images
from dpw.methods.base import Method, ensemble
from dpw.methods.candidates import Candidates, ClassGroup
from dpw.methods.config import MethodConfig


class SingleModel(Method):
    """Answers with one model; questions differ only in their class texts."""

    def __init__(self, backbone: Backbone, config: MethodConfig) -> None:
        """Start without kept text features."""
        super().__init__(backbone, config)
        self._texts: dict[ClassGroup, Tensor] = {}

    @property
    def model(self) -> Backbone:
        """The CLIP that answers now."""
        return self.backbone

    def task_logits(self, pixels: Tensor) -> Tensor:
        """The model over the classes being learned, with the gradients of both towers."""
        images = F.normalize(self.model.encode_images(pixels), dim=-1)
        texts = F.normalize(self.model.encode_texts(self.training_tokens()), dim=-1)
        return self.model.logit_scale * images @ texts.T

    def logits(self, images: Images, candidates: Candidates) -> Tensor:
        """CLIP's own classification among any classes."""
        texts = torch.cat([self.text_features(group) for group in candidates.groups])
        return self.model.logit_scale * self.image_features(images) @ texts.T

    def image_features(self, images: Images) -> Tensor:
        """Normalised image features; those of the frozen backbone are remembered."""
        if self.model is not self.backbone or self.feature_cache is None or images.keys is None:
            return F.normalize(self.model.encode_images(images.pixels()), dim=-1)
        keys = [("frozen", key) for key in images.keys]
        rows = self.feature_cache.recall(keys, lambda rows: self.frozen_image_features(images.pixels(rows)))
        return rows.to(self.model.device)

    def text_features(self, group: ClassGroup) -> Tensor:
        """Normalised class features `(C, E)`, kept from call to call while nothing is being trained."""
        if group in self._texts:
            return self._texts[group].to(self.model.device)
        features = ensemble(self.model.encode_texts(self.tokens(group)), len(group.templates))
        if not features.requires_grad and not self.trainable():
            self._texts[group] = features
        return features

    def model_changed(self) -> None:
        """Forget kept text features, because the model's weights are about to change or have changed."""
        self._texts.clear()
