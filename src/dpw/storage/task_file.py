"""The file of one learned task that stays on disk until an answer needs it.

Every byte is hashed when the model is loaded, so a damaged file is refused before the first answer, and again
whenever the file is read: no answer comes from bytes that were not checked. The file stays open, so a task
that another process forgets can still be read here.
"""

import hashlib
import os
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BufferedReader
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load
from torch import Tensor

from dpw.clip.fitting import is_finite
from dpw.errors import DamagedFileError
from dpw.storage import files

KEPT_OPEN = 256  # files of this process at a time; systems allow about a thousand
AT_ONCE = 8  # files that are hashed at the same time, at most


class TaskFile:
    """Tensors of a task on disk, of which some are in memory; a `TaskSource`."""

    def __init__(self, folder: Path, entry: Mapping[str, Any], resident: tuple[str, ...]) -> None:
        """Check the file of an entry and take the tensors whose names begin so."""
        self.path, self.entry = files.existing_path(folder, entry), dict(entry)
        self._descriptor: int | None = None
        with self._open() as file:
            self.seen = files.seen(file.fileno())
            files.refuse_size(self.path, self.seen.size, entry)
            files.refuse_digest(self.path, hashlib.file_digest(file, "sha256").hexdigest(), entry)
            self.shapes, self.light = self._outline(resident)
            if files.seen(self.path)[:-1] != self.seen[:-1]:
                raise DamagedFileError(f"{self.path} was changed while it was read: load the model again")
            refuse_not_finite(self.path, self.light)
            if hasattr(os, "pread") and len(_STAYING) < KEPT_OPEN:  # no pread: Windows
                self._descriptor = os.dup(file.fileno())
                weakref.finalize(self, os.close, self._descriptor)
                _STAYING.add(self)

    def read(self) -> dict[str, Tensor]:
        """All tensors, their bytes checked again."""
        content = self.content()
        tensors = load(content)
        refuse_not_finite(self.path, tensors)
        return tensors

    def content(self) -> bytes:
        """The bytes of the file, checked again."""
        if self._descriptor is not None:
            content = os.pread(self._descriptor, self.entry["bytes"] + 1, 0)
        else:
            with self._open() as file:
                content = file.read()
        files.refuse_size(self.path, len(content), self.entry)
        files.refuse_digest(self.path, hashlib.sha256(content).hexdigest(), self.entry)
        return content

    def write_to(self, folder: Path) -> dict[str, Any]:
        """Let a folder have the file, which may be its own; gives its entry.

        The file itself is taken for good if nobody has written to it since it was hashed; a copy that is not
        the very same is written anew.
        """
        path = folder / self.path.name
        if not files.is_as_seen(path, self.seen):
            now = files.seen(path) if path.exists() else None
            files.write_entry(folder, self.entry, self.content())
            if now is not None and files.seen(path) == now:
                self.seen = now  # found whole: hashed just now
        return self.entry

    def _open(self) -> BufferedReader:
        """The file, for reading."""
        try:
            return self.path.open("rb")
        except FileNotFoundError as error:
            raise DamagedFileError(f"{self.path} is missing: restore it from a copy") from error
        except OSError as error:
            raise DamagedFileError(f"{self.path} cannot be read ({error.strerror})") from error

    def _outline(self, resident: tuple[str, ...]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Shapes of all tensors, and those that are wanted in memory."""
        try:
            with safe_open(self.path, "pt") as opened:
                every = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (no mapping)
                shapes = {name: torch.empty_like(one, device="meta") for name, one in every.items()}
                light = {name: one.clone() for name, one in every.items() if name.startswith(resident)}
        except (SafetensorError, OSError, ValueError, KeyError) as error:
            raise DamagedFileError(f"{self.path} does not hold valid tensors ({error})") from error
        return shapes, light


_STAYING: weakref.WeakSet[TaskFile] = weakref.WeakSet()


def open_all(folder: Path, entries: Sequence[Mapping[str, Any]], resident: tuple[str, ...]) -> list[TaskFile]:
    """Check the files of tasks, several at a time; the first that is damaged is refused."""
    with ThreadPoolExecutor(max(1, min(AT_ONCE, torch.get_num_threads(), len(entries)))) as pool:
        opened = [pool.submit(TaskFile, folder, entry, resident) for entry in entries]
        try:
            return [one.result() for one in opened]
        finally:
            pool.shutdown(cancel_futures=True)


def refuse_not_finite(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Refuse what no training leaves behind: NaN or an infinity."""
    for name, tensor in tensors.items():
        no_bound = tensor.ndim == 0 and bool((tensor == -torch.inf).all())  # a threshold that was never set
        if tensor.is_floating_point() and not no_bound and not is_finite(tensor):
            raise DamagedFileError(
                f"{path} has NaN or infinite values in {name!r}: refused, learn it again "
                "with a smaller learning rate or restore it from a copy"
            )
