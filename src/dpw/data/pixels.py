"""A cache of preprocessed uint8 pixels, so that an image is decoded and resized once and not every epoch.

On disk, for each preprocessing, there are segments: `NAME.pixels` (records of equal size, mapped into memory to
read) and `NAME.index` (one entry of 28 bytes for each record, written after its record). A segment has one
writer, the process that made it, so two processes never write to the same file and need no lock; each reads the
segments of all.
"""

import contextlib
import hashlib
import os
import struct
import uuid
import weakref
import zlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dpw.data.split import Split
from dpw.errors import InputError
from dpw.preprocessing import Pixels, Preprocessing

DEFAULT_MAX_BYTES = 32 * 1024**3
RECORDS_IN_SEGMENT = 256
SEGMENTS_AT_LEAST = 16
ENTRY = struct.Struct("<20sII")


@dataclass(frozen=True)
class _Place:
    """Where a record lies and what its checksum is."""

    segment: str
    slot: int
    checksum: int


@dataclass
class _OwnSegment:
    """The segment this process is filling."""

    name: str
    process: int
    capacity: int
    filled: int = 0


@dataclass
class _Known:
    """What has been read of the index files so far."""

    places: dict[bytes, _Place] = field(default_factory=dict)
    read_bytes: dict[str, int] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)


class PixelCache:
    """Gives preprocessed pixels, from disk when they are there; bounded, and safe under several processes."""

    def __init__(
        self,
        preprocessing: Preprocessing,
        folder: Path | None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        workers: int | None = None,
    ) -> None:
        """Keep pixels below `folder` (None: keep nothing), at most `max_bytes`, decoding with `workers` threads."""
        self.preprocessing = preprocessing
        self.height, self.width = _fixed_size(preprocessing)
        self.max_bytes = max_bytes
        self.workers = workers if workers is not None else min(8, os.cpu_count() or 1)
        self._base = folder
        self._folder = None if folder is None else folder / f"pixels-{preprocessing.pixel_fingerprint}"
        self._record = 3 * self.height * self.width
        self._known = _Known()
        self._own: _OwnSegment | None = None
        if self._folder is not None:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(
                    f"pixel cache {self._folder} cannot be made ({error.strerror}); choose another folder"
                ) from error
        self._close = weakref.finalize(self, lambda: None)

    def pixels(self, split: Split, indices: Sequence[int]) -> Pixels:
        """Pixels of the images at these places of the split, as uint8 `(len(indices), 3, H, W)`."""
        batch = np.empty((len(indices), 3, self.height, self.width), dtype=np.uint8)
        if self._folder is None:
            self._decode(split, [(row, index, b"") for row, index in enumerate(indices)], batch)
            return batch
        wanted = [(row, index, _key(split.key(index))) for row, index in enumerate(indices)]
        missing = self._read(wanted, batch)
        if missing:
            self._refresh()
            missing = self._read(missing, batch)
        if missing:
            self._decode(split, missing, batch)
            self._keep([(key, batch[row]) for row, _, key in missing])
        return batch

    def close(self) -> None:
        """Give back the disk space that the last segment reserved and did not need."""
        self._finish_segment()

    def __enter__(self) -> "PixelCache":
        """Use the cache in a `with` block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close at the end of the block."""
        self.close()
