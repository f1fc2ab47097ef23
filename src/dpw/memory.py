"""Features of images that were already computed, so that no image goes through the same tower twice."""

from collections.abc import Callable, Hashable, Sequence

import torch
from torch import Tensor


class FeatureMemory:
    """Feature rows by key, kept beside the model for as long as the memory lives."""

    def __init__(self) -> None:
        """Start empty."""
        self._rows: dict[Hashable, Tensor] = {}

    def __len__(self) -> int:
        """How many rows are remembered."""
        return len(self._rows)

    def recall(self, keys: Sequence[Hashable], compute: Callable[[list[int]], Tensor]) -> Tensor:
        """The rows of all keys `(len(keys), E)`; `compute(positions)` is asked only for the unknown ones."""
        missing = [position for position, key in enumerate(keys) if key not in self._rows]
        if missing:
            for position, row in zip(missing, compute(missing).cpu().unbind(0), strict=True):
                self._rows[keys[position]] = row
        return torch.stack([self._rows[key] for key in keys])
