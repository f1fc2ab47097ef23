"""Holding a student to a teacher: distillation over images and sentences that belong to no answer."""

from collections.abc import Mapping
from typing import Any, Literal, Protocol

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from dpw.clip.backbone import Backbone
from dpw.data.task import Task
from dpw.methods.base import TaskImages
from dpw.methods.finetune import CIL_TRAINING, MINI_FINETUNING, FineTune, FineTuneConfig
from dpw.methods.parts.losses import distillation
from dpw.methods.parts.restraints import Restraint

TEXT_ROWS = 512  # sentences that go through the text tower at once
MINI_DISTILLING: dict[str, Any] = MINI_FINETUNING | {"reference_batch": 16}
CIL_DISTILLING: dict[str, Any] = CIL_TRAINING | {"image_weight": 5.0, "text_weight": 5.0}


class DistillingConfig(FineTuneConfig):
    """Settings of distillation beside fine-tuning."""

    temperature: float = Field(2.0, gt=0)
    """Temperature of distillation."""
    image_weight: float = Field(1.0, ge=0)
    """Weight of distillation over images."""
    text_weight: float = Field(1.0, ge=0)
    """Weight of distillation over texts."""
    reference_batch: int = Field(64, ge=1)
    """Reference images in a step."""
    teacher: Literal["previous", "init"] = "previous"
    """Who is imitated: the model before the task, or plain CLIP."""


class ReferenceSource(Protocol):
    """Where the images and sentences come from that teacher and student are compared on."""

    def begin(self, task: Task) -> None:
        """Prepare for a task, before the method enters it."""
        ...

    def pixels(self) -> Tensor | None:
        """The images of this step, or None where there are none yet."""
        ...

    def tokens(self) -> Tensor:
        """Token ids of the sentences, the same in every step of a task."""
        ...

    def end(self, images: TaskImages) -> None:
        """Called with the selected weights and the images of the task."""
        ...


class Distillation(Restraint):
    """Keeps the similarities of reference images and sentences as a teacher sees them.

    The sentences are the teacher's on both sides, so this holds the image tower only, as in ZSCL's code.
    """

    needs_previous = True

    def __init__(self, method: FineTune, config: DistillingConfig, source: ReferenceSource) -> None:
        """Compare what `method` learns with its teacher on the batches of a source."""
        self.method, self.config, self.source = method, config, source
        self._sentences: Tensor | None = None

    @property
    def teacher(self) -> Backbone:
        """The model before this task, or plain CLIP throughout."""
        return self.method.backbone if self.config.teacher == "init" else self.method.previous_model

    def begin(self, task: Task) -> None:
        """Prepare the reference data."""
        self.clear()
        self.source.begin(task)

    def cost(self) -> Tensor:
        """Distillation over sentences for each image, and over images for each sentence."""
        pixels = self.source.pixels()
        if pixels is None:
            return super().cost()
        texts, temperature = self._sentence_features(), self.config.temperature
        with torch.no_grad():
            target = similarities(self.teacher, pixels, texts)
        found = similarities(self.method.model, pixels, texts)
        over_texts = distillation(target, found, temperature)
        over_images = distillation(target.T, found.T, temperature)
        return self.config.image_weight * over_texts + self.config.text_weight * over_images

    def end(self, images: TaskImages) -> None:
        """Let the source take what it keeps of the task."""
        self.source.end(images)

    def clear(self) -> None:
        """Drop the teacher's sentence features."""
        self._sentences = None

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:  # noqa: ARG002
        """The teacher may have changed, hence its features."""
        self.clear()

    def _sentence_features(self) -> Tensor:
        """The teacher's normalised features `(R, E)` of the sentences, encoded once a task."""
        if self._sentences is None:
            with torch.no_grad():
                parts = torch.split(self.source.tokens(), TEXT_ROWS)
                encoded = torch.cat([self.teacher.encode_texts(part) for part in parts])
            self._sentences = F.normalize(encoded, dim=-1)
        return self._sentences


def similarities(model: Backbone, pixels: Tensor, texts: Tensor) -> Tensor:
    """Scaled cosines `(B, R)` of images by a model with given text features."""
    return model.logit_scale * F.normalize(model.encode_images(pixels), dim=-1) @ texts.T
