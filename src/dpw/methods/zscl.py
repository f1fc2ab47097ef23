"""ZSCL: distil the zero-shot model on outside images and captions, stay near the start, average weights."""

from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from dpw.clip.backbone import Backbone
from dpw.data.task import Task
from dpw.methods.base import TaskImages, register
from dpw.methods.finetune import copy_weights
from dpw.methods.lwf import LwF, LwFConfig
from dpw.methods.tensors import add_prefix, strip_prefix


class ZSCLConfig(LwFConfig):
    """ZSCL's constants; the authors use ImageNet images and Conceptual Captions' validation captions."""

    teacher: Literal["previous", "init"] = "init"
    reference_images: str | None = None
    reference_sentences: str | None = None
    consolidation: float = Field(1.0, ge=0)
    average_every: int = Field(100, ge=0)


CLASS_INCREMENTAL = {
    "image_weight": 5.0,
    "text_weight": 5.0,
    "average_every": 10,
    "training": {
        "learning_rate": 7.1e-6,
        "task_learning_rates": {},
        "iterations": None,
        "epochs": 1,
        "warmup": 30,
    },
}


@register(star={"consolidation": 0.0}, cil=CLASS_INCREMENTAL)
class ZSCL(LwF):
    """Full fine-tuning held to plain CLIP's view of reference data; the average of the weights is kept.

    `average` runs over the weights at the start of the task and after every hundredth step; `average_every`
    0 switches it off. The preset `star` is ZSCL*, without the pull towards the start.
    """

    name = "zscl"
    summary = "ZSCL: distillation from plain CLIP on outside data, weight consolidation and averaging"
    config_class = ZSCLConfig
    config: ZSCLConfig

    def __init__(self, backbone: Backbone, config: ZSCLConfig) -> None:
        """Start without an average."""
        super().__init__(backbone, config)
        self.average: dict[str, Tensor] = {}
        self.averaged = self.steps = 0

    def begin_task(self, task: Task, images: TaskImages) -> None:
        """Begin the average at the start point."""
        super().begin_task(task, images)
        self.average = {name: tensor.detach().clone() for name, tensor in self.weights().items()}
        self.averaged, self.steps = 1, 0

    def restraint(self) -> Tensor:
        """Distillation and the squared distance from the start."""
        distilled = super().restraint()
        if not self.config.consolidation:
            return distilled
        start = self.start_weights()
        distances = [(tensor - start[name]).square().sum() for name, tensor in self.weights().items()]
        return distilled + self.config.consolidation * torch.stack(distances).sum()

    def after_step(self, step: int) -> None:
        """Take the weights into the average after the first step and every hundredth one from there."""
        self.steps = step + 1
        if self.config.average_every and step % self.config.average_every == 0:
            self._take_into_average()

    @torch.no_grad()
    def _take_into_average(self) -> None:
        """One more point of the running mean."""
        for name, tensor in self.weights().items():
            self.average[name].mul_(self.averaged).add_(tensor).div_(self.averaged + 1)
        self.averaged += 1

    def end_task(self, images: TaskImages) -> None:
        """Keep the average instead of the last weights."""
        if self.config.average_every:
            # The public loop makes one more step, at learning rate 0, and averages after it as well.
            if self.steps % self.config.average_every == 0:
                self._take_into_average()
            copy_weights(self.weights(), self.average)
        self.average = {}
        super().end_task(images)

    def abandon(self, learned: int, shared: Mapping[str, Tensor]) -> None:
        """Also drop the average."""
        super().abandon(learned, shared)
        self.average = {}

    def progress_state(self) -> dict[str, Tensor]:
        """The average so far, beside the start."""
        state = super().progress_state()
        if self.average:
            state |= add_prefix("average.", self.average)
            state["averaged"] = torch.tensor([self.averaged, self.steps])
        return state

    def load_progress_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the average back."""
        super().load_progress_state(tensors)
        if "averaged" in tensors:
            copy_weights(self.average, strip_prefix("average.", tensors))
            self.averaged, self.steps = (int(count) for count in tensors["averaged"])
