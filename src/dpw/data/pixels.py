"""The one way from image files to pixels: decoded and resized once, then read back by all who want them.

Training, measuring, prediction and reference data all go through a `PixelCache`.
"""

import hashlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from dpw.clip.preprocessing import Pixels, Preprocessing
from dpw.data.augment import random_resized_crop
from dpw.data.cores import own_threads
from dpw.data.decoding import DECODING_ERRORS
from dpw.data.image_like import as_picture, image_name
from dpw.data.protocol import get_protocol
from dpw.data.segments import KEY_BYTES, SegmentStore, warn_uncached
from dpw.data.split import Split
from dpw.data.task import Task
from dpw.errors import InputError

DEFAULT_MAX_BYTES = 32 * 1024**3
CHECKED_AT_ONCE = 64


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
        self.workers = workers if workers is not None else min(8, own_threads())
        self._lock = threading.Lock()
        self._store = None
        if folder is not None:
            record_bytes = 3 * self.size[0] * self.size[1]
            kind = f"pixels-{preprocessing.pixel_fingerprint}"
            try:
                self._store = SegmentStore(folder, kind, record_bytes, max_bytes)
            except InputError as error:
                warn_uncached(str(error))

    def pixels(self, split: Split, indices: Sequence[int]) -> Pixels:
        """Pixels of the images at these indices of the split, as uint8 `(len(indices), 3, H, W)`."""
        batch, errors = self.readable_pixels(split, indices)
        if errors:
            raise errors[min(errors)]
        return batch

    def readable_pixels(self, split: Split, indices: Sequence[int]) -> tuple[Pixels, dict[int, InputError]]:
        """As `pixels`, but images that cannot be read are left black and have their error by row."""
        batch = np.zeros((len(indices), 3, *self.size), dtype=np.uint8)
        if self._store is None:
            return batch, self._decode(split, indices, range(len(indices)), batch)
        keys, errors = _keys(split, indices)
        with self._lock:
            missing = self._read(keys, list(keys), batch)
            if missing:
                self._store.refresh()
                missing = self._read(keys, missing, batch)
        if missing:
            row_of = {keys[row]: row for row in missing}  # an image that is asked for twice is decoded once
            failed = self._decode(split, indices, list(row_of.values()), batch)
            for row in missing:
                decoded = row_of[keys[row]]
                if decoded in failed:
                    errors[row] = failed[decoded]
                elif decoded != row:
                    batch[row] = batch[decoded]
            with self._lock:
                self._store.add([(key, batch[row]) for key, row in row_of.items() if row not in failed])
        return batch, errors

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

    def _read(self, keys: Mapping[int, bytes], rows: Sequence[int], batch: Pixels) -> list[int]:
        """Fill the rows that are on disk and give the others."""
        assert self._store is not None
        missing = set(rows)
        for position, record in self._store.read([keys[row] for row in rows]):
            batch[rows[position]] = record.reshape(3, *self.size)
            missing.discard(rows[position])
        return sorted(missing)

    def _decode(
        self, split: Split, indices: Sequence[int], rows: Sequence[int], batch: Pixels
    ) -> dict[int, InputError]:
        """Decode and preprocess the images of some rows; gives the errors of those that cannot be read."""
        errors: dict[int, InputError] = {}

        def decode(row: int) -> None:
            """Fill one row."""
            try:
                batch[row] = self.preprocessing.pixels(split[indices[row]].image)
            except InputError as error:
                errors[row] = error

        in_threads(decode, rows, self.workers)
        return errors


def read_images(
    cache: PixelCache, images: Sequence[Any], names: Sequence[str] | None = None
) -> tuple[Pixels, dict[int, InputError]]:
    """Pixels of images in any form people have them (`ImageLike`), and the errors of others by row.

    Files go through the cache; what is already in memory is not kept. `names` are for messages. Both are
    decoded by as many threads as the cache has workers.
    """
    batch = np.zeros((len(images), 3, *cache.size), dtype=np.uint8)
    files: dict[int, str] = {}
    errors: dict[int, InputError] = {}

    def decode(row: int) -> None:
        """Fill the row of an image that is no file."""
        name = image_name(images[row], row) if names is None else names[row]
        try:
            batch[row] = cache.preprocessing.pixels(as_picture(images[row], name))
        except InputError as error:
            errors[row] = error
        except DECODING_ERRORS as error:
            errors[row] = InputError(f"{name} cannot be decoded ({error}); give a good copy of it")

    for row, image in enumerate(images):
        if isinstance(image, str | os.PathLike):
            files[row] = os.fspath(image)
    objects = {id(image): row for row, image in enumerate(images) if row not in files}
    in_threads(decode, list(objects.values()), cache.workers)
    for row in sorted(set(range(len(images))) - {*files, *objects.values()}):
        decode(row)  # an object that is given twice must not be read by two threads at a time
    split = Split.from_files(files.values(), [0] * len(files))
    batch[list(files)], unread = cache.readable_pixels(split, range(len(files)))
    errors |= {row: unread[index] for index, row in enumerate(files) if index in unread}
    return batch, dict(sorted(errors.items()))  # threads end in any order


def check_readable(cache: PixelCache, split: Split, should_stop: Callable[[], bool] = lambda: False) -> None:
    """Read every image of a split once, through the cache; the first that cannot be read is raised."""
    if split.in_memory:
        return
    for start in range(0, len(split), CHECKED_AT_ONCE):
        if should_stop():
            return
        cache.pixels(split, range(start, min(start + CHECKED_AT_ONCE, len(split))))


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


def cache_folder() -> Path | None:
    """Where preprocessed pixels are kept: DPW_CACHE, or the user's cache folder; None where there is none."""
    chosen, base = os.environ.get("DPW_CACHE"), os.environ.get("XDG_CACHE_HOME")
    if chosen or base:
        return Path(chosen) if chosen else Path(str(base)) / "dpw"
    try:
        return Path.home() / ".cache" / "dpw"
    except RuntimeError:
        warn_uncached("this user has no home folder")
        return None


def _keys(split: Split, indices: Sequence[int]) -> tuple[dict[int, bytes], dict[int, InputError]]:
    """Keys of fixed length by row, and the errors of images that are not there."""
    keys: dict[int, bytes] = {}
    errors: dict[int, InputError] = {}
    for row, index in enumerate(indices):
        try:
            keys[row] = hashlib.sha256(split.key(index).encode()).digest()[:KEY_BYTES]
        except InputError as error:
            errors[row] = error
    return keys, errors
