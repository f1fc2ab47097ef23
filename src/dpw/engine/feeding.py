"""From a split to batches of pixels on the device, in an order that depends only on seed, task and epoch."""

import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from dpw.data.images import Images
from dpw.data.pixels import PixelCache, training_pixels
from dpw.data.split import Split
from dpw.data.task import Task
from dpw.engine.variation import Variation


class SplitImages:
    """The images of a split in their own order, batch by batch (what methods call `TaskImages`)."""

    def __init__(self, split: Split, cache: PixelCache, device: torch.device, batch_size: int = 64) -> None:
        """Read pixels through the cache and move them to the device."""
        self.split, self.cache, self.device, self.batch_size = split, cache, device, batch_size

    def __len__(self) -> int:
        """How many images there are."""
        return len(self.split)

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Pixels and labels, the last batch possibly smaller."""
        for start in range(0, len(self.split), self.batch_size):
            rows = range(start, min(start + self.batch_size, len(self.split)))
            labels = torch.tensor([self.split.labels[row] for row in rows], device=self.device)
            yield self._pixels(rows), labels

    def images(self, rows: Sequence[int]) -> Images:
        """Some of the images, their pixels fetched only when needed."""
        keys = [self.split.key(row) for row in rows]
        return Images(lambda chosen: self._pixels([rows[i] for i in chosen]), len(rows), keys)

    def _pixels(self, rows: Sequence[int]) -> Tensor:
        """uint8 pixels on the device."""
        return torch.from_numpy(self.cache.pixels(self.split, rows)).to(self.device)


class EpochPixels(Dataset[tuple[Tensor, Tensor]]):
    """The training images of one epoch; whole batches are read at once."""

    def __init__(
        self, task: Task, cache: PixelCache, seed: int, epoch: int, variation: Variation | None = None
    ) -> None:
        """Seed and epoch decide the random crop, where the protocol or a variation has one."""
        self.task, self.cache, self.seed, self.epoch = task, cache, seed, epoch
        self.variation = variation

    def __len__(self) -> int:
        """How many images there are."""
        return len(self.task.train)

    def __getitems__(self, rows: list[int]) -> tuple[Tensor, Tensor]:
        """Pixels and labels of one batch."""
        pixels = training_pixels(self.cache, self.task, rows, seed=self.seed, epoch=self.epoch)
        batch = torch.from_numpy(pixels)
        if self.variation is not None:
            batch = self.variation.apply(batch, f"{self.seed}-{self.task.name}-{self.epoch}-{rows}")
        return batch, torch.tensor([self.task.train.labels[row] for row in rows])


def epoch_batches(count: int, batch_size: int, drop_last: bool, key: str) -> list[list[int]]:
    """The batches of one epoch: a shuffle that depends only on the key; too few images make one batch."""
    order = list(range(count))
    random.Random(f"{key}-order").shuffle(order)
    batches = [order[start : start + batch_size] for start in range(0, count, batch_size)]
    if drop_last and len(batches) > 1 and len(batches[-1]) < batch_size:
        batches.pop()
    return batches


class Share(NamedTuple):
    """What one of several processes computes of a batch: its samples from start to stop.

    The mean over processes of the loss times its weight is the mean over the batch.
    """

    start: int
    stop: int
    batch: int
    weight: float

    @classmethod
    def of(cls, batch: int, process: int, processes: int) -> "Share":
        """Of a batch of so many images; a process for which none is left computes one that counts nothing.

        Example:
            >>> from dpw.engine.feeding import Share
            >>> [Share.of(6, process, 4)[:3] for process in range(4)]
            [(0, 1, 6), (1, 3, 6), (3, 4, 6), (4, 6, 6)]
        """
        start, stop = (batch * number // processes for number in (process, process + 1))
        weight = (stop - start) * processes / batch
        return cls(start, stop, batch, weight) if start < stop else cls(0, 1, batch, 0.0)


class GivenBatches(Sampler[list[int]]):
    """Batches that are already decided."""

    def __init__(self, batches: list[list[int]]) -> None:
        """Keep the batches."""
        self.batches = batches

    def __iter__(self) -> Iterator[list[int]]:
        """One batch after another."""
        return iter(self.batches)

    def __len__(self) -> int:
        """How many batches there are."""
        return len(self.batches)


def epoch_loader(dataset: EpochPixels, batches: list[list[int]], workers: int) -> DataLoader[Any]:
    """A loader over given batches; pixels stay uint8 until they are on the device."""
    return DataLoader(
        dataset,
        batch_sampler=GivenBatches(batches),
        num_workers=workers,
        collate_fn=_as_it_is,
        pin_memory=torch.accelerator.is_available(),
        prefetch_factor=2 if workers else None,
    )


def _as_it_is(batch: Any) -> Any:
    """Batches come whole from the dataset."""
    return batch
