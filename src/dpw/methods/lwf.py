"""Learning without Forgetting, and its variant with a random vocabulary, as ZSCL compares them."""

import torch
from pydantic import Field
from torch import Tensor

from dpw.clip.backbone import Backbone
from dpw.data.reference import (
    OWN_IMAGES,
    OWN_PROMPTS,
    ShuffledRows,
    pixels_of,
    reference_images,
    reference_sentences,
    seeded,
    sentence_tokens,
)
from dpw.data.split import Split
from dpw.data.task import Task
from dpw.methods.base import TaskImages, register
from dpw.methods.parts.distillation import Distilling, DistillingConfig


class LwFConfig(DistillingConfig):
    """LwF's reference data: the task's own images and class prompts."""

    reference_images: str | None = OWN_IMAGES
    reference_sentences: str | None = OWN_PROMPTS


@register()
class LwF(Distilling):
    """The model before the task teaches the one that learns, on the task's own images and classes."""

    name = "lwf"
    summary = "LwF: fine-tuning held to the previous model's answers on the new task's images"
    config_class = LwFConfig
    config: LwFConfig
    _images: Split
    _rows: ShuffledRows
    _tokens_of_sentences: Tensor

    def begin_task(self, task: Task, images: TaskImages) -> None:
        """Find the reference data and fix the order in which its images come."""
        self._images = reference_images(self.config.reference_images, self.reference, task, self.name)
        self._tokens_of_sentences = self.tokens_of_sentences(task)
        super().begin_task(task, images)
        key = (self.config.seed, len(self.tasks), "reference")
        self._rows = ShuffledRows(len(self._images), self.config.reference_batch, *key)

    def tokens_of_sentences(self, task: Task) -> Tensor:
        """Token ids of the reference sentences for a task."""
        found = reference_sentences(self.config.reference_sentences, self.reference, task, self.name)
        return sentence_tokens(found, self.backbone)

    def reference_pixels(self) -> Tensor:
        """The next images of the shuffled passes."""
        return pixels_of(self._images, self._rows.at(self.step), self.pixel_cache, self.backbone.device)

    def reference_tokens(self) -> Tensor:
        """The reference sentences of the task."""
        return self._tokens_of_sentences.to(self.backbone.device)


class LwFVRConfig(LwFConfig):
    """Size of the random vocabulary."""

    random_sentences: int = Field(1000, ge=1)
    random_length: int = Field(10, ge=1)


@register()
class LwFVR(LwF):
    """LwF with random token sequences in place of the class prompts."""

    name = "lwf-vr"
    summary = "LwF with 1000 sentences of random tokens in place of the class prompts"
    config_class = LwFVRConfig
    config: LwFVRConfig

    def tokens_of_sentences(self, task: Task) -> Tensor:  # noqa: ARG002
        """The same random sentences for every task."""
        generator = seeded(self.config.seed, "random sentences")
        return random_tokens(
            self.backbone, self.config.random_sentences, self.config.random_length, generator
        )


def random_tokens(backbone: Backbone, count: int, length: int, generator: torch.Generator) -> Tensor:
    """Sentences of tokens drawn from the whole vocabulary, between start and end of text."""
    frame = backbone.tokenize(["a"])[0]
    start, end = int(frame[0]), int(frame[-1])
    vocabulary = int(backbone.clip.config.text_config.vocab_size)
    allowed = torch.tensor([token for token in range(vocabulary) if token not in (start, end)])
    length = min(length, backbone.text_shape.tokens - 2)
    drawn = allowed[torch.randint(len(allowed), (count, length), generator=generator)]
    edge = torch.ones(count, 1, dtype=torch.long)
    return torch.cat([start * edge, drawn, end * edge], dim=1)
