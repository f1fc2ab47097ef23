"""The running average of the weights along a training, as ZSCL takes it."""

from collections.abc import Mapping

import torch
from torch import Tensor

from dpw.data.task import Task
from dpw.methods.base import TaskImages
from dpw.methods.finetune import FineTune
from dpw.methods.parts.restraints import Restraint
from dpw.methods.tensors import add_prefix, strip_prefix


class Averaging(Restraint):
    """When a task ends, the mean of the weights at its beginning and after every n-th step replaces them."""

    def __init__(self, method: FineTune, every: int) -> None:
        """A point is taken after the first step and every `every` steps from there; 0 switches it off."""
        self.method, self.every = method, every
        self.average: dict[str, Tensor] = {}
        self.points = self.steps = 0

    def begin(self, task: Task) -> None:  # noqa: ARG002
        """Begin the average with the weights before the task."""
        self.average = {name: tensor.detach().clone() for name, tensor in self.method.weights().items()}
        self.points, self.steps = 1, 0

    def after_step(self, step: int) -> None:
        """Take a point if it is time."""
        self.steps = step + 1
        if self.every and step % self.every == 0:
            self._take_point()

    @torch.no_grad()
    def _take_point(self) -> None:
        """One more point of the running mean."""
        for name, tensor in self.method.weights().items():
            self.average[name].mul_(self.points).add_(tensor).div_(self.points + 1)
        self.points += 1

    def end(self, images: TaskImages) -> None:  # noqa: ARG002
        """Keep the average instead of the last weights."""
        if not self.every:
            return
        # The public loop makes one more step, at learning rate 0, and averages after it as well.
        if self.steps % self.every == 0:
            self._take_point()
        copy_tensors(self.method.weights(), self.average)

    def clear(self) -> None:
        """Drop the average."""
        self.average = {}

    def state(self) -> dict[str, Tensor]:
        """The average so far, how many points it has and how many steps were made."""
        if not self.average:
            return {}
        return {
            **add_prefix("average.", self.average),
            "averaged": torch.tensor([self.points, self.steps]),
        }

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the average back."""
        if "averaged" in tensors:
            copy_tensors(self.average, strip_prefix("average.", tensors))
            self.points, self.steps = (int(count) for count in tensors["averaged"])


@torch.no_grad()
def copy_tensors(target: Mapping[str, Tensor], source: Mapping[str, Tensor]) -> None:
    """Overwrite tensors in place, name by name."""
    for name, tensor in target.items():
        tensor.copy_(source[name])
