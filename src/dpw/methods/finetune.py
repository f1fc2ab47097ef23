"""Sequential full fine-tuning: both towers go on training, task after task, and nothing holds them back."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn

from dpw.clip.backbone import Backbone
from dpw.data.task import Task
from dpw.errors import InputError
from dpw.methods.base import Method, TaskImages
from dpw.methods.config import MethodConfig, TrainingConfig
from dpw.methods.parts.plain import PlainAnswers
from dpw.methods.parts.restraints import Restraint
from dpw.methods.registry import register
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
    drop_last=False,
    select="last",
)

# The authors' class-incremental runs: one pass over each step at one rate for all.
CIL_TRAINING: dict[str, Any] = {
    "training.learning_rate": 7.1e-6,
    "training.task_learning_rates": {},
    "training.iterations": None,
    "training.epochs": 1,
    "training.warmup": 30,
}

# The embedded model is a hundred times smaller and has a few hundred images a task: it needs larger steps and
# far fewer of them. The same settings hold for all tasks; they were chosen on validation images.
MINI_FINETUNING: dict[str, Any] = {
    "training.learning_rate": 2e-4,
    "training.batch_size": 32,
    "training.iterations": 32,
    "training.warmup": 3,
}


class FineTuneConfig(MethodConfig):
    """Settings of full fine-tuning."""

    training: TrainingConfig = FULL_FINETUNING
    """How one task is trained."""


@register(mini=MINI_FINETUNING, cil=CIL_TRAINING)
class FineTune(Method):
    """Sequential full fine-tuning, as ZSCL ran it ("Continual-FT").

    Every weight of both towers except the temperature goes on training, task after task, by cross entropy
    over the classes of the current task (first template, label smoothing 0.2). AdamW, batch 64, 1000
    iterations a task, 100 steps of warm-up and a cosine to zero, learning rate 1e-5, but 5e-5 for `aircraft`
    and `mnist`. The last weights count; there is no choice by validation. The frozen CLIP is never touched:
    the method trains a copy and stores all of it, so a saved model is as large as CLIP, whatever the number
    of tasks. One task cannot be forgotten alone.

    `lwf`, `lwf-vr`, `icarl`, `wise-ft`, `zscl`, `gift` and `c-clip` build on this method. Published figures
    of this family use protocol `zscl`. Preset `cil` has the settings of the authors' class-incremental runs.
    """

    name = "finetune"
    summary = "sequential full fine-tuning of both towers, nothing against forgetting"
    config_class = FineTuneConfig
    config: FineTuneConfig
    shared = ("student",)
    temporary: ClassVar[tuple[str, ...]] = ("previous",)

    def __init__(self, backbone: Backbone, config: FineTuneConfig) -> None:
        """Start as plain CLIP, unrestrained; methods of the family set `restraints`."""
        super().__init__(backbone, config)
        self.student: Backbone | None = None  # there is none before the first task
        # A frozen copy of the student before the task being learned, where a restraint needs it.
        self.previous: Backbone | None = None
        self.restraints: tuple[Restraint, ...] = ()
        self.answers = PlainAnswers(self, lambda: self.model)

    @property
    def model(self) -> Backbone:
        """The CLIP that answers now: the student once there is one."""
        return self.backbone if self.student is None else self.student

    @property
    def previous_model(self) -> Backbone:
        """The model as it was before the task: plain CLIP for the first."""
        return self.backbone if self.previous is None else self.previous

    # ------------------------------------------------------------------------------------ learning a task

    def begin_task(self, task: Task, images: TaskImages) -> None:
        """Go on from the last task's weights."""
        for restraint in self.restraints:
            restraint.begin(task)
        super().begin_task(task, images)
        if self.student is not None and any(restraint.needs_previous for restraint in self.restraints):
            self.previous = self.student.trainable_copy().requires_grad_(requires_grad=False)
        if self.student is None:
            self.student = self.backbone.trainable_copy()
        for tensor in self.weights().values():
            tensor.requires_grad = True

    def forward(self, pixels: Tensor, labels: Tensor) -> Tensor:
        """Cross entropy on the task plus what the restraints cost."""
        return super().forward(pixels, labels) + self.restraint()

    def restraint(self) -> Tensor:
        """What a step costs beside the cross entropy: the sum over all restraints."""
        total = self.backbone.logit_scale.new_zeros(())
        for restraint in self.restraints:
            total = total + restraint.cost()
        return total

    def after_step(self, step: int) -> None:
        """Let every restraint see the new weights."""
        for restraint in self.restraints:
            restraint.after_step(step)

    def end_task(self, images: TaskImages) -> None:
        """Let every restraint have its last say and freeze the student."""
        for restraint in self.restraints:
            restraint.end(images)
        super().end_task(images)

    def _close(self) -> None:
        """Also drop what the restraints keep within a task."""
        super()._close()
        for restraint in self.restraints:
            restraint.clear()

    def weights(self) -> dict[str, nn.Parameter]:
        """The student's learned weights by their names in CLIP."""
        return learned_weights(self.model)

    def previous_weights(self) -> dict[str, nn.Parameter]:
        """The same weights before the task."""
        return learned_weights(self.previous_model)

    def restore(self, snapshot: Mapping[str, Tensor]) -> None:
        """Go back to a snapshot; older ones also hold constants of the previous model, then called start."""
        super().restore({name: tensor for name, tensor in snapshot.items() if not name.startswith("start.")})

    # ----------------------------------------------------------------------------------- state, as tensors

    def shared_state(self) -> dict[str, Tensor]:
        """All weights of the student."""
        return {} if self.student is None else add_prefix("student.", self.student.clip.state_dict())

    def load_shared_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the student back."""
        if tensors:
            self.student = self._stored_model(tensors, "student")
            self.answers.clear()

    def progress_state(self) -> dict[str, Tensor]:
        """The weights before the task, called start on disk, and what the restraints need to go on."""
        state = {} if self.previous is None else add_prefix("start.", self.previous.clip.state_dict())
        for restraint in self.restraints:
            state |= restraint.state()
        return state

    def load_progress_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the weights before the task and the state of the restraints back."""
        if any(name.startswith("start.") for name in tensors):
            self.previous = self._stored_model(tensors, "start")
        for restraint in self.restraints:
            restraint.load_state(tensors)

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
    """All weights of a CLIP that fine-tuning changes: all but temperature and bias of the logits."""
    fixed = ("logit_scale", "logit_bias")
    return {name: tensor for name, tensor in model.clip.named_parameters() if name not in fixed}
