"""Replay: images of earlier tasks, chosen by herding, as reference data for distillation."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from dpw.data.reference import seeded
from dpw.data.task import Task
from dpw.methods.bank import HostTensors
from dpw.methods.base import TaskImages
from dpw.methods.finetune import FineTune

STORED = "memory"  # the name of a task's exemplars on disk


@dataclass
class Exemplars:
    """Images of every learned task, shared evenly, with the prompts of the classes being learned.

    They are in the bank of the method, best first, as they come from the data and without labels. `room` is
    how many there are over all tasks, `batch` how many come in a step, `herding_limit` how many images of a
    task are looked at.
    """

    method: FineTune
    room: int
    batch: int
    herding_limit: int

    def begin(self, task: Task) -> None:
        """A task begins with the exemplars of the earlier ones."""

    @property
    def kept(self) -> list[Tensor]:
        """The exemplars of each task learned so far."""
        return [module[STORED] for module in self.method.bank if isinstance(module, HostTensors)]

    def pixels(self) -> Tensor | None:
        """The next exemplars, task after task, from the first again at the end."""
        kept = self.kept
        total = sum(len(exemplars) for exemplars in kept)
        if not total:
            return None
        first = self.method.step * self.batch
        rows = [_at(kept, index % total) for index in range(first, first + self.batch)]
        return torch.stack(rows).to(self.method.backbone.device)

    def tokens(self) -> Tensor:
        """The classes being learned."""
        return self.method.training_tokens()

    def end(self, images: TaskImages) -> None:
        """Choose the exemplars of the new task, and cut every earlier task to its share."""
        quota = self.room // len(self.method.tasks)
        kept = [*(exemplars[:quota] for exemplars in self.kept), self._choose(images, quota)]
        for index, exemplars in enumerate(kept):
            self.method.bank[index] = HostTensors({STORED: exemplars})

    @torch.no_grad()
    def _choose(self, images: TaskImages, quota: int) -> Tensor:
        """The herded images of a task, best first."""
        model = self.method.model
        features = [model.encode_images(pixels).float().cpu() for pixels, _ in images.batches()]
        rows = torch.arange(len(images))
        if len(rows) > self.herding_limit:
            key = (self.method.config.seed, self.method.task_names[-1], "herding")
            rows = torch.randperm(len(rows), generator=seeded(*key))[: self.herding_limit]
        chosen = rows[herding(F.normalize(torch.cat(features)[rows], dim=-1), quota)]
        rank = {row: index for index, row in enumerate(chosen.tolist())}
        found: dict[int, Tensor] = {}
        seen = 0
        for pixels, _ in images.batches():
            found |= {rank[seen + r]: pixels[r].cpu() for r in range(len(pixels)) if seen + r in rank}
            seen += len(pixels)
        return torch.stack([found[index] for index in range(len(chosen))])


def _at(kept: list[Tensor], index: int) -> Tensor:
    """One exemplar, counted through all tasks."""
    for exemplars in kept:
        if index < len(exemplars):
            return exemplars[index]
        index -= len(exemplars)
    raise IndexError(index)


def herding(features: Tensor, count: int) -> Tensor:
    """Rows of unit vectors, picked one by one so that their mean stays nearest to the mean of all."""
    mean = features.mean(dim=0)
    total = torch.zeros_like(mean)
    left = torch.ones(len(features), dtype=torch.bool)
    chosen = []
    for picked in range(min(count, len(features))):
        # All rows have length one, so the nearest mean is the largest product.
        closeness = features @ (mean * (picked + 1) - total)
        best = int(closeness.masked_fill(~left, -torch.inf).argmax())
        chosen.append(best)
        left[best] = False
        total = total + features[best]
    return torch.tensor(chosen, dtype=torch.long)
