"""Logs of one JSON object a line: the same bytes whether a run was interrupted or not."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from dpw.errors import DamagedFileError, StorageError


class MetricsLog:
    """An append-only log that can be taken back to an earlier length; without a path it is silent."""

    def __init__(self, path: Path | None = None) -> None:
        """Append to the file at `path`."""
        self.path = path

    def write(self, **values: Any) -> None:
        """Add one line."""
        if self.path is not None:
            try:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(values) + "\n")
            except OSError as error:
                raise StorageError(
                    f"cannot write {self.path}: {error.strerror}; run the command again", error.errno
                ) from error

    def append(self, text: str) -> None:
        """Add whole lines as they were written elsewhere."""
        if self.path is not None and text:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(text)

    def since(self, position: int) -> str:
        """What was written after a position."""
        return self._read()[position:].decode()

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

    def position(self) -> int:
        """Length of the log in bytes, safely on disk."""
        if self.path is None or not self.path.exists():
            return 0
        with self.path.open("rb+") as file:
            os.fsync(file.fileno())
        return self.path.stat().st_size

    def digest(self) -> str:
        """SHA-256 of the log as it stands."""
        return hashlib.sha256(self._read()).hexdigest()

    def _read(self) -> bytes:
        """All bytes of the log; none where there is no log."""
        if self.path is None or not self.path.exists():
            return b""
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise DamagedFileError(
                f"{self.path} cannot be read ({error.strerror}): mend its rights"
            ) from error

    def rewind(self, position: int, digest: str | None = None) -> None:
        """Forget everything that was written after a position; what stands before must have the digest."""
        if self.path is None:
            return
        size = self.path.stat().st_size if self.path.exists() else 0
        if size < position:
            raise DamagedFileError(
                f"{self.path} has {size} bytes but {position} were written: it was truncated"
            )
        if digest is not None and hashlib.sha256(self._read()[:position]).hexdigest() != digest:
            raise DamagedFileError(f"{self.path} was changed after it was written: restore it from a copy")
        if size > position:
            os.truncate(self.path, position)
