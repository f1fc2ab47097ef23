"""Logs of one JSON object a line: the same bytes whether a run was interrupted or not."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from dpw.errors import DamagedFileError, StorageError

LARGEST = 256_000_000  # bytes that are read at once; ten million steps have as many
PIECE = 1 << 20


class MetricsLog:
    """An append-only log that can be taken back to an earlier length; without a path it is silent."""

    def __init__(self, path: Path | None = None) -> None:
        """Append to the file at `path`."""
        self.path = path

    def write(self, **values: Any) -> None:
        """Add one line."""
        self.append(json.dumps(values) + "\n")

    def append(self, text: str) -> None:
        """Add whole lines as they were written elsewhere."""
        if self.path is None or not text:
            return
        self.refuse_special()
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise StorageError(
                f"cannot write {self.path}: {error.strerror}; run the command again", error.errno
            ) from error

    def since(self, position: int) -> str:
        """What was written after a position."""
        return self._read(position).decode()

    def entries(self) -> list[dict[str, Any]]:
        """All lines as values; one that was cut off or damaged is passed over."""
        if self.path is None or not self.path.is_file():
            return []
        found = []
        for line in self._read().splitlines():
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                continue
            found += [value] if isinstance(value, dict) else []
        return found

    def refuse_special(self) -> None:
        """Refuse to write to anything but a plain file: a link may lead anywhere, a pipe waits forever."""
        if self.path is None:
            return
        if self.path.is_symlink() or (self.path.exists() and not self.path.is_file()):
            raise DamagedFileError(f"{self.path} is no plain file but a link, a folder or a pipe: remove it")

    def position(self) -> int:
        """Length of the log in bytes, safely on disk."""
        size = self._size()
        if self.path is not None and size:
            with self.path.open("rb+") as file:
                os.fsync(file.fileno())
        return size

    def digest(self) -> str:
        """SHA-256 of the log as it stands."""
        return self._digest(self._size())

    def _size(self) -> int:
        """Bytes of the log; none where there is no log."""
        self.refuse_special()
        return self.path.stat().st_size if self.path is not None and self.path.exists() else 0

    def _digest(self, size: int) -> str:
        """SHA-256 of the first bytes of the log."""
        digest = hashlib.sha256()
        for start in range(0, size, PIECE):
            digest.update(self._read(start, min(PIECE, size - start)))
        return digest.hexdigest()

    def _read(self, start: int = 0, size: int = LARGEST) -> bytes:
        """Bytes of the log from a place on; none where there is no log."""
        if self.path is None or not self._size():
            return b""
        if min(size, self._size() - start) >= LARGEST:
            raise DamagedFileError(
                f"{self.path} has {self._size()} bytes, as no log of a run does: remove it"
            )
        try:
            with self.path.open("rb") as file:
                file.seek(start)
                return file.read(size)
        except OSError as error:
            raise DamagedFileError(
                f"{self.path} cannot be read ({error.strerror}): mend its rights"
            ) from error

    def rewind(self, position: int, digest: str | None = None) -> None:
        """Forget everything that was written after a position; what stands before must have the digest."""
        if self.path is None:
            return
        size = self._size()
        if size < position:
            raise DamagedFileError(
                f"{self.path} has {size} bytes but {position} were written: it was truncated"
            )
        if digest is not None and self._digest(position) != digest:
            raise DamagedFileError(f"{self.path} was changed after it was written: restore it from a copy")
        if size > position:
            try:
                os.truncate(self.path, position)
            except OSError as error:
                raise StorageError(
                    f"cannot write {self.path}: {error.strerror}; mend its rights", error.errno
                ) from error
