"""Logs of one JSON object a line: the same bytes whether a run was interrupted or not."""

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

    def entries(self) -> list[dict[str, Any]]:
        """All lines as values; a line cut off by a kill is passed over."""
        if self.path is None or not self.path.is_file():
            return []
        found = []
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                value = json.loads(line)
            except ValueError:
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

    def rewind(self, position: int) -> None:
        """Forget everything that was written after a position."""
        if self.path is None:
            return
        size = self.path.stat().st_size if self.path.exists() else 0
        if size < position:
            raise DamagedFileError(
                f"{self.path} has {size} bytes but {position} were written: it was truncated"
            )
        if size > position:
            os.truncate(self.path, position)
