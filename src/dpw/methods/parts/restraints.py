"""What a restraint of full fine-tuning is: something that holds a model back while it learns a task."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from dpw.data.task import Task
from dpw.methods.base import TaskImages


class Restraint:
    """One means against forgetting; a method combines several, and each acts only where it has to.

    It may add a cost to the loss, look at the weights after every step, and change them when the task ends.
    """

    needs_previous: ClassVar[bool] = False  # whether the model before the task must be kept

    def begin(self, task: Task) -> None:
        """Prepare for a task, before the method enters it: what is missing is refused here."""

    def cost(self) -> Tensor:
        """What the current step costs beside the cross entropy."""
        return torch.zeros(())

    def after_step(self, step: int) -> None:
        """Called after every optimiser step."""

    def end(self, images: TaskImages) -> None:
        """Called with the selected weights, while the model before the task still exists."""

    def clear(self) -> None:
        """Drop what matters only within a task, whether it was learned or abandoned."""

    def state(self) -> dict[str, Tensor]:
        """Tensors that an interrupted training needs to go on."""
        return {}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the tensors of an interrupted training back; those of others are among them."""
