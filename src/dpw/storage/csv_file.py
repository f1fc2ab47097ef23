"""A CSV file that grows line by line, goes on after a kill, and runs nothing when a spreadsheet opens it."""

import csv
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dpw.errors import InputError, StorageError

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_cell(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula, on one line; numbers and a lone dash stay."""
    if not isinstance(value, str):
        return value
    text = value.replace("\r", "\\r").replace("\n", "\\n")
    if not text.startswith(FORMULA) or text == "-":
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def csv_line(values: Sequence[Any]) -> str:
    """One row as one line, whatever stands in its cells."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow([csv_cell(value) for value in values])
    return line.getvalue()


class CsvFile:
    """A table in a file: read what is complete, then add rows, each of which outlives a kill."""

    def __init__(self, path: Path, header: Sequence[str]) -> None:
        """A new file or one with the same header; any other is refused and stays as it is."""
        self.path, self.header = path, csv_line(header)
        self._columns, self._end = len(header), 0

    def rows(self) -> Iterator[list[str]]:
        """The complete rows, one by one; a line that a kill cut off does not count."""
        self._end = 0
        if not self.path.exists():
            return
        with self._open("rb") as file:
            for number, line in enumerate(file, 1):
                text = line.decode(errors="surrogateescape")
                if number == 1 and not self.header.startswith(text):
                    raise InputError(
                        f"{self.path} is there already and is another table (it has other columns): "
                        "choose another file"
                    )
                if not text.endswith("\n"):
                    return
                if number > 1:
                    yield self._cells(text, number)
                self._end += len(line)

    def _cells(self, line: str, number: int) -> list[str]:
        """The cells of one line."""
        cells = next(csv.reader([line]), [])
        if len(cells) != self._columns:
            raise InputError(
                f"line {number} of {self.path} has {len(cells)} cells instead of {self._columns}: "
                "restore the file or choose another one"
            )
        return cells

    def begin(self) -> None:
        """Go on after the rows that were read: cut off what was not complete, and write a missing header."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._refused(error) from error
        with self._open("ab") as file:
            file.truncate(self._end)
        if not self._end:
            self._write(self.header)

    def add(self, values: Sequence[Any]) -> None:
        """One more row."""
        self._write(csv_line(values))

    def _write(self, line: str) -> None:
        """Append a line and hand it to the system."""
        try:
            with self._open("ab") as file:
                file.write(line.encode(errors="surrogateescape"))
        except OSError as error:
            raise self._refused(error) from error

    def _open(self, mode: str) -> Any:
        """The file, or why not; a pipe would be waited for."""
        if self.path.exists() and not self.path.is_file() and not self.path.is_dir():
            raise StorageError(f"cannot use {self.path}: it is a pipe or a device; choose another file")
        try:
            return self.path.open(mode)
        except OSError as error:
            raise self._refused(error) from error

    def _refused(self, error: OSError) -> StorageError:
        """What stood in the way."""
        why = os.strerror(error.errno) if error.errno else str(error)
        return StorageError(f"cannot use {self.path}: {why}; choose another file or make room", error.errno)
