"""Sequential full fine-tuning: both towers go on training, task after task, and nothing holds them back."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from dpw.clip.backbone import Backbone
from dpw.data.task import Task
from dpw.errors import InputError
from dpw.methods.base import TaskImages, register
from dpw.methods.config import MethodConfig, TrainingConfig
from dpw.methods.parts.single_model import SingleModel
from dpw.methods.tensors import add_prefix, strip_prefix

# ZSCL's settings, which all full fine-tuning methods of its tables share.
FULL_FINETUNING = TrainingConfig(
    optimizer="adamw",
    learning_rate=1e-5,
    task_learning_rates={"aircraft": 5e-5, "mnist": 5e-5},
    batch_size=64,
    epochs=None,
    iterations=1000,
    schedule="warmup-cosine",
    warmup=100,
    final_factor=0.0,
    label_smoothing=0.2,
    select="last",
)


class FineTuneConfig(MethodConfig):
    """Settings of full fine-tuning."""

    training: TrainingConfig = FULL_FINETUNING


@register()
class FineTune(SingleModel):
    """Trains every weight of a second CLIP except its temperature; the base of all that restrain it.

    `student` is None before the first task. `start` is a frozen copy of it from the beginning of the task
    being learned, kept only by methods that need it as a teacher or an anchor.
    """

    name = "finetune"
    summary = "sequential full fine-tuning of both towers, nothing against forgetting"
    config_class = FineTuneConfig
    config: FineTuneConfig
    keeps_start = False

    def __init__(self, backbone: Backbone, config: FineTuneConfig) -> None:
        """Start as plain CLIP."""
        super().__init__(backbone, config)
        self.student: Backbone | None = None
        self.start: Backbone | None = None

    @property
    def model(self) -> Backbone:
        """The student once there is one."""
        return self.backbone if self.student is None else self.student

    @property
    def start_model(self) -> Backbone:
        """The model as it was at the beginning of the task: plain CLIP for the first."""
        return self.backbone if self.start is None else self.start

    # ------------------------------------------------------------------------------------ learning a task

    def begin_task(self, task: Task, images: TaskImages) -> None:
        """Go on from the last task's weights."""
        super().begin_task(task, images)
        if self.keeps_start and self.student is not None:
            self.start = self.student.trainable_copy().requires_grad_(requires_grad=False)
        if self.student is None:
            self.student = self.backbone.trainable_copy()
        for tensor in self.weights().values():
            tensor.requires_grad = True
        self.model_changed()

    def forward(self, pixels: Tensor, labels: Tensor) -> Tensor:
        """Cross entropy on the task plus whatever the method adds against forgetting."""
        return super().forward(pixels, labels) + self.restraint()

    def restraint(self) -> Tensor:
        """What a step costs beside the cross entropy; here nothing."""
        return self.backbone.logit_scale.new_zeros(())

    def end_task(self, images: TaskImages) -> None:
        """Freeze the student and let the copy of the start go."""
        super().end_task(images)
        self.start = None
        self.model_changed()

    def abandon(self, learned: int, shared: Mapping[str, Tensor]) -> None:
        """Go back to the student from before the task, or to none."""
        self.start = None
        if not shared:
            self.student = None
        super().abandon(learned, shared)
        self.model_changed()

    def weights(self) -> dict[str, nn.Parameter]:
        """The student's learned weights by their names in CLIP."""
        return learned_weights(self.model)

    def start_weights(self) -> dict[str, nn.Parameter]:
        """The same weights at the beginning of the task."""
        return learned_weights(self.start_model)

    # ----------------------------------------------------------------------------------- state, as tensors

    def shared_state(self) -> dict[str, Tensor]:
        """All weights of the student."""
        return {} if self.student is None else model_state(self.student, "student")

    def load_shared_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the student back."""
        if tensors:
            self.student = self._stored_model(tensors, "student")
            self.model_changed()

    def progress_state(self) -> dict[str, Tensor]:
        """The weights at the beginning of the task, for methods that go on needing them."""
        return {} if self.start is None else model_state(self.start, "start")

    def load_progress_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the weights of the beginning back."""
        if any(name.startswith("start.") for name in tensors):
            self.start = self._stored_model(tensors, "start")
            self.model_changed()

    def _stored_model(self, tensors: Mapping[str, Tensor], prefix: str) -> Backbone:
        """A frozen CLIP from the stored tensors whose names begin with the prefix."""
        stored = strip_prefix(f"{prefix}.", tensors)
        twin = self.backbone.trainable_copy().requires_grad_(requires_grad=False)
        expected = twin.clip.state_dict()
        shapes = [{(name, tensor.shape) for name, tensor in part.items()} for part in (stored, expected)]
        if odd := sorted(name for name, _ in shapes[0] ^ shapes[1]):
            raise InputError(
                f"the stored {prefix} model and this CLIP differ in {odd[0]!r}: use the CLIP it was made from"
            )
        twin.clip.load_state_dict(stored)
        return twin

    def parameter_count(self) -> int:
        """Every weight of the student except the temperature; none before the first task."""
        return 0 if self.student is None else sum(tensor.numel() for tensor in self.weights().values())


def learned_weights(model: Backbone) -> dict[str, nn.Parameter]:
    """All weights of a CLIP that fine-tuning changes: everything except the temperature."""
    return {name: tensor for name, tensor in model.clip.named_parameters() if name != "logit_scale"}


def model_state(model: Backbone, prefix: str) -> dict[str, Tensor]:
    """The tensors of a CLIP under prefixed names."""
    return add_prefix(f"{prefix}.", model.clip.state_dict())


def copy_weights(target: Mapping[str, Tensor], source: Mapping[str, Tensor]) -> None:
    """Overwrite weights in place, name by name."""
    with torch.no_grad():
        for name, tensor in target.items():
            tensor.copy_(source[name])
