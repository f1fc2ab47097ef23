"""Preprocessed uint8 pixels, decoded and resized once and then read back every epoch."""

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from dpw.clip.preprocessing import Pixels, Preprocessing
from dpw.data.augment import random_resized_crop
from dpw.data.protocol import get_protocol
from dpw.data.segments import KEY_BYTES, SegmentStore
from dpw.data.split import Split
from dpw.data.task import Task
from dpw.errors import InputError

DEFAULT_MAX_BYTES = 32 * 1024**3


class PixelCache:
    """Gives preprocessed pixels, from disk when they are there; bounded, and safe under several processes."""

    def __init__(
        self,
        preprocessing: Preprocessing,
        folder: Path | None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        workers: int | None = None,
    ) -> None:
        """Keep at most `max_bytes` below `folder` (None: keep nothing); decode with `workers` threads."""
        self.preprocessing = preprocessing
        self.size = pixel_size(preprocessing)
        self.folder, self.max_bytes = folder, max_bytes
        self.workers = workers if workers is not None else min(8, os.cpu_count() or 1)
        self._lock = threading.Lock()
        self._store = None
        if folder is not None:
            record_bytes = 3 * self.size[0] * self.size[1]
            kind = f"pixels-{preprocessing.pixel_fingerprint}"
            self._store = SegmentStore(folder, kind, record_bytes, max_bytes)

    def pixels(self, split: Split, indices: Sequence[int]) -> Pixels:
        """Pixels of the images at these places of the split, as uint8 `(len(indices), 3, H, W)`."""
        batch = np.empty((len(indices), 3, *self.size), dtype=np.uint8)
        if self._store is None:
            self._decode(split, indices, range(len(indices)), batch)
            return batch
        keys = [_short(split.key(index)) for index in indices]
        with self._lock:
            missing = self._read(keys, range(len(keys)), batch)
            if missing:
                self._store.refresh()
                missing = self._read(keys, missing, batch)
        if missing:
            self._decode(split, indices, missing, batch)
            with self._lock:
                self._store.add([(keys[row], batch[row]) for row in missing])
        return batch

    def close(self) -> None:
        """Give back disk space that was reserved and not needed; the cache can still be used."""
        if self._store is not None:
            self._store.close()

    def __enter__(self) -> "PixelCache":
        """Use the cache in a `with` block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close at the end of the block."""
        self.close()

    def __reduce__(self) -> tuple[type["PixelCache"], tuple[Preprocessing, Path | None, int, int]]:
        """Travel to another process as its settings; the other process opens the folder anew."""
        return PixelCache, (self.preprocessing, self.folder, self.max_bytes, self.workers)

    def _read(self, keys: Sequence[bytes], rows: Sequence[int], batch: Pixels) -> list[int]:
        """Fill the rows that are on disk and give the others."""
        assert self._store is not None
        missing = set(rows)
        for position, record in self._store.read([keys[row] for row in rows]):
            batch[rows[position]] = record.reshape(3, *self.size)
            missing.discard(rows[position])
        return sorted(missing)

    def _decode(self, split: Split, indices: Sequence[int], rows: Sequence[int], batch: Pixels) -> None:
        """Decode and preprocess the images of some rows."""

        def decode(row: int) -> None:
            """Fill one row."""
            batch[row] = self.preprocessing.pixels(split[indices[row]].image)

        in_threads(decode, rows, self.workers)


def training_pixels(
    cache: PixelCache, task: Task, indices: Sequence[int], *, seed: int, epoch: int
) -> Pixels:
    """Pixels of training images as the task's protocol wants them: as at test time, or randomly cropped."""
    if not get_protocol(task.protocol).random_crop:
        return cache.pixels(task.train, indices)
    batch = np.empty((len(indices), 3, *cache.size), dtype=np.uint8)

    def crop(row: int) -> None:
        """Fill one row."""
        image = task.train[indices[row]].image
        cut = random_resized_crop(image, cache.size, seed=seed, epoch=epoch, index=indices[row])
        batch[row] = np.asarray(cut, dtype=np.uint8).transpose(2, 0, 1)

    in_threads(crop, range(len(indices)), cache.workers)
    return batch


def pixel_size(preprocessing: Preprocessing) -> tuple[int, int]:
    """Height and width of every image after preprocessing."""
    if preprocessing.crop is not None:
        return preprocessing.crop
    if isinstance(preprocessing.size, tuple):
        return preprocessing.size
    raise InputError(
        f"preprocessing with size {preprocessing.size} and no crop gives images of different sizes; "
        "set crop or a size of (height, width)"
    )


def in_threads(work: Callable[[int], None], rows: Sequence[int], workers: int) -> None:
    """Do some work for every row, in threads when there is more than one; the first error is raised."""
    if workers <= 1 or len(rows) <= 1:
        for row in rows:
            work(row)
        return
    with ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(work, rows):
            pass


def cache_folder() -> Path:
    """Where preprocessed pixels are kept: DPW_CACHE, or the user's cache folder."""
    chosen = os.environ.get("DPW_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(chosen) if chosen else Path(base) / "dpw"


def _short(key: str) -> bytes:
    """A key of fixed length."""
    return hashlib.sha256(key.encode()).digest()[:KEY_BYTES]
