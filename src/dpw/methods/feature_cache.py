"""Features of images that were already computed, so that no image goes through the same tower twice."""

import os
import tempfile
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

IN_MEMORY = 2**30  # bytes of features beside the model; what comes later waits on disk


class _OnDisk(NamedTuple):
    """Where a row lies in the file."""

    offset: int
    size: int
    dtype: torch.dtype


class FeatureCache:
    """Feature rows by key for as long as the memory lives, in main memory up to a limit, then in a file."""

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        """Start empty; the file has no name and vanishes with the memory."""
        self._rows: dict[Hashable, Tensor | _OnDisk] = {}
        self._left = in_memory
        # It lives as long as the memory, which no single block of code could say.
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        weakref.finalize(self, self._file.close)

    def __len__(self) -> int:
        """How many rows are remembered."""
        return len(self._rows)

    def recall(self, keys: Sequence[Hashable], compute: Callable[[list[int]], Tensor]) -> Tensor:
        """The rows of all keys `(len(keys), E)`; `compute(positions)` is asked only for the unknown ones."""
        missing = [position for position, key in enumerate(keys) if key not in self._rows]
        if missing:
            for position, row in zip(missing, compute(missing).cpu().unbind(0), strict=True):
                self._rows[keys[position]] = self._kept(row)
        return torch.stack([self._row(key) for key in keys])

    def _kept(self, row: Tensor) -> Tensor | _OnDisk:
        """The row itself while there is room, else its place in the file."""
        self._left -= row.nbytes
        if self._left >= 0:
            return row
        offset = self._file.seek(0, os.SEEK_END)
        self._file.write(row.contiguous().view(torch.uint8).numpy().tobytes())
        return _OnDisk(offset, row.nbytes, row.dtype)

    def _row(self, key: Hashable) -> Tensor:
        """A remembered row, read back if it is on disk."""
        kept = self._rows[key]
        if isinstance(kept, Tensor):
            return kept
        self._file.seek(kept.offset)
        return torch.frombuffer(bytearray(self._file.read(kept.size)), dtype=kept.dtype)
