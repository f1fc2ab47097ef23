"""Holding a student to a teacher: distillation over images and sentences that belong to no answer."""

from abc import abstractmethod
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from dpw.clip.backbone import Backbone
from dpw.methods.finetune import FineTune, FineTuneConfig

TEXT_ROWS = 512  # sentences that go through the text tower at once


def distillation(teacher: Tensor, student: Tensor, temperature: float) -> Tensor:
    """τ² · CE(softmax(teacher/τ), student/τ), mean over rows: its least value is τ² · teacher entropy."""
    target = F.softmax(teacher / temperature, dim=-1)
    return temperature**2 * F.cross_entropy(student / temperature, target)


class DistillingConfig(FineTuneConfig):
    """Settings of distillation beside fine-tuning."""

    temperature: float = Field(2.0, gt=0)
    image_weight: float = Field(1.0, ge=0)
    text_weight: float = Field(1.0, ge=0)
    reference_batch: int = Field(64, ge=1)
    teacher: Literal["previous", "init"] = "previous"


class Distilling(FineTune):
    """Fine-tuning that keeps the similarities of reference images and sentences as a teacher sees them.

    The sentences are the teacher's on both sides, so this holds the image tower only, as in ZSCL's code.
    """

    config: DistillingConfig
    keeps_start = True

    @abstractmethod
    def reference_pixels(self) -> Tensor | None:
        """The images of this step, or None where there are none yet."""

    @abstractmethod
    def reference_tokens(self) -> Tensor:
        """Token ids of the sentences, the same in every step of a task."""

    @property
    def teacher_model(self) -> Backbone:
        """The model before this task, or plain CLIP throughout."""
        return self.backbone if self.config.teacher == "init" else self.start_model

    def model_changed(self) -> None:
        """Forget the teacher's sentences too."""
        super().model_changed()
        self._sentences: Tensor | None = None

    def sentence_features(self) -> Tensor:
        """The teacher's normalised features `(R, E)` of the sentences, encoded once a task."""
        if self._sentences is None:
            with torch.no_grad():
                parts = torch.split(self.reference_tokens(), TEXT_ROWS)
                encoded = torch.cat([self.teacher_model.encode_texts(part) for part in parts])
            self._sentences = F.normalize(encoded, dim=-1)
        return self._sentences

    def restraint(self) -> Tensor:
        """Distillation over sentences for each image, and over images for each sentence."""
        pixels = self.reference_pixels()
        if pixels is None:
            return super().restraint()
        texts, temperature = self.sentence_features(), self.config.temperature
        with torch.no_grad():
            target = similarities(self.teacher_model, pixels, texts)
        found = similarities(self.model, pixels, texts)
        over_texts = distillation(target, found, temperature)
        over_images = distillation(target.T, found.T, temperature)
        return self.config.image_weight * over_texts + self.config.text_weight * over_images


def similarities(model: Backbone, pixels: Tensor, texts: Tensor) -> Tensor:
    """Scaled cosines `(B, R)` of images by a model with given text features."""
    return model.logit_scale * F.normalize(model.encode_images(pixels), dim=-1) @ texts.T
