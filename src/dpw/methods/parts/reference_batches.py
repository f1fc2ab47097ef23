"""Reference data for distillation: images in shuffled passes, and one set of sentences a task."""

from collections.abc import Callable
from typing import ClassVar

from torch import Tensor

from dpw.data.reference import (
    ShuffledRows,
    pixels_of,
    reference_images,
    reference_sentences,
    sentence_tokens,
)
from dpw.data.split import Split
from dpw.data.task import Task
from dpw.methods.base import TaskImages
from dpw.methods.finetune import FineTune
from dpw.methods.parts.distillation import DistillingConfig


class ReferencedConfig(DistillingConfig):
    """Where reference images and sentences come from; without a setting they are given by a program."""

    needed_reference: ClassVar[tuple[str, ...]] = ("reference_images", "reference_sentences")

    reference_images: str | None = None
    """Images to distil on: `task` for the task's own, a folder, or a saved dataset."""
    reference_sentences: str | None = None
    """Sentences to distil on: `class-prompts` for the task's own, or a file of sentences."""


class ReferenceBatches:
    """The reference data that the settings name, in batches that depend on seed, task and step alone."""

    _images: Split
    _rows: ShuffledRows
    _tokens: Tensor

    def __init__(
        self, method: FineTune, config: ReferencedConfig, sentences: Callable[[Task], Tensor] | None = None
    ) -> None:
        """`sentences(task)` gives token ids in place of those that the settings name."""
        self.method, self.config = method, config
        self.sentences = sentences or self._named_sentences

    def begin(self, task: Task) -> None:
        """Find the reference data and fix the order in which its images come."""
        method, config = self.method, self.config
        self._images = reference_images(config.reference_images, method.reference, task, method.name)
        self._tokens = self.sentences(task)
        key = (config.seed, task.name, "reference")
        self._rows = ShuffledRows(len(self._images), config.reference_batch, *key)

    def pixels(self) -> Tensor:
        """The next images of the shuffled passes."""
        return pixels_of(
            self._images,
            self._rows.at(self.method.step),
            self.method.pixel_cache,
            self.method.backbone.device,
        )

    def tokens(self) -> Tensor:
        """The reference sentences of the task."""
        return self._tokens.to(self.method.backbone.device)

    def end(self, images: TaskImages) -> None:
        """Nothing of a task is kept."""

    def _named_sentences(self, task: Task) -> Tensor:
        """Token ids of the reference sentences for a task."""
        method = self.method
        found = reference_sentences(self.config.reference_sentences, method.reference, task, method.name)
        return sentence_tokens(found, method.backbone)
