"""iCaRL on CLIP, as ZSCL compares it: LwF whose reference images are a memory of earlier tasks."""

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from dpw.clip.backbone import Backbone
from dpw.data.reference import seeded
from dpw.errors import InputError
from dpw.methods.base import LearnedTask, TaskImages, register
from dpw.methods.parts.distillation import Distilling, DistillingConfig


class ICaRLConfig(DistillingConfig):
    """Size of the memory over all tasks, and how many images of a task herding looks at."""

    memory: int = Field(10_000, ge=1)
    herding_limit: int = Field(30_000, ge=1)


@register()
class ICaRL(Distilling):
    """Keeps exemplars of every task by herding and distils the previous model on them.

    The public code's slips (quota of a new task, indices that drift while herding) are not repeated.
    """

    name = "icarl"
    summary = "iCaRL: fine-tuning held to the previous model's answers on remembered images"
    status = "textbook version: the published script does not give the settings of the table"
    config_class = ICaRLConfig
    config: ICaRLConfig

    def __init__(self, backbone: Backbone, config: ICaRLConfig) -> None:
        """Start with an empty memory."""
        super().__init__(backbone, config)
        self.memory: list[Tensor] = []

    def reference_pixels(self) -> Tensor | None:
        """The next remembered images, task after task, from the start again at the end."""
        sizes = [len(kept) for kept in self.memory]
        if not sum(sizes):
            return None
        first = self.step * self.config.reference_batch
        places = [place % sum(sizes) for place in range(first, first + self.config.reference_batch)]
        return torch.stack([self._remembered(place) for place in places]).to(self.backbone.device)

    def _remembered(self, place: int) -> Tensor:
        """One remembered image, counted through all tasks."""
        for kept in self.memory:
            if place < len(kept):
                return kept[place]
            place -= len(kept)
        raise IndexError(place)

    def reference_tokens(self) -> Tensor:
        """The classes being learned."""
        return self.training_tokens()

    def end_task(self, images: TaskImages) -> None:
        """Choose the exemplars of the new task and make room for them."""
        super().end_task(images)
        quota = self.config.memory // len(self.tasks)
        self.memory.append(self._exemplars(images, quota))
        self._make_room()

    def abandon(self, learned: int, shared: Mapping[str, Tensor]) -> None:
        """Also drop what was remembered of the abandoned task."""
        super().abandon(learned, shared)
        del self.memory[learned:]

    @torch.no_grad()
    def _exemplars(self, images: TaskImages, quota: int) -> Tensor:
        """The herded images of a task, best first, as they come from the data and without labels."""
        features = [self.model.encode_images(pixels).float().cpu() for pixels, _ in images.batches()]
        rows = torch.arange(len(images))
        if len(rows) > self.config.herding_limit:
            key = (self.config.seed, len(self.tasks), "herding")
            rows = torch.randperm(len(rows), generator=seeded(*key))[: self.config.herding_limit]
        chosen = rows[herding(F.normalize(torch.cat(features)[rows], dim=-1), quota)]
        place = {row: position for position, row in enumerate(chosen.tolist())}
        kept: dict[int, Tensor] = {}
        seen = 0
        for pixels, _ in images.batches():
            kept |= {place[seen + r]: pixels[r].cpu() for r in range(len(pixels)) if seen + r in place}
            seen += len(pixels)
        return torch.stack([kept[position] for position in range(len(chosen))])

    def _make_room(self) -> None:
        """Cut every task to its share; herding has put the best images first."""
        quota = self.config.memory // max(len(self.memory), 1)
        self.memory = [kept[:quota].clone() for kept in self.memory]

    def task_state(self, index: int) -> dict[str, Tensor]:
        """The remembered images of one task."""
        return {"memory": self.memory[index]}

    def load_task(self, task: LearnedTask, tensors: Mapping[str, Tensor]) -> None:
        """Remember a task's images again, as many as there is room for now."""
        if tensors.keys() != {"memory"}:
            raise InputError(f"task {task.name!r} needs the tensor 'memory' but has {sorted(tensors)}")
        super().load_task(task, {})
        self.memory.append(tensors["memory"].cpu())
        self._make_room()


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
