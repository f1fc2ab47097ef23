"""Reading a task from a CSV or Parquet table with one row for each image."""

import csv
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpw.data.content import TaskContent, divided
from dpw.data.folder_task import SPLIT_NAMES
from dpw.data.labels import number_labels
from dpw.data.root import Root
from dpw.data.split import Split
from dpw.errors import InputError


@dataclass(frozen=True)
class TableColumns:
    """Which column says what; `split` may be absent, then rows are divided by a seed."""

    path: str = "path"
    label: str = "label"
    split: str = "split"


def read_table(
    path: Path,
    *,
    name: str | None,
    root: Path | None,
    columns: TableColumns,
    classes: Sequence[str] | None,
    class_names: Mapping[str, str],
    fractions: tuple[float, float],
    seed: int,
) -> TaskContent:
    """Read a table whose paths are relative to `root` (the table's own folder by default)."""
    name = name or path.stem
    rows = _read_rows(path)
    folder = Root(root or path.parent)
    _require_columns(rows, (columns.path, columns.label), path)
    found, labels = number_labels([row[columns.label] for row in rows], classes, class_names, str(path))
    files = [
        folder.file(str(row[columns.path]), f"row {number + 1} of {path}") for number, row in enumerate(rows)
    ]
    images = Split.from_files(files, labels)
    splits = (
        _given_splits(images, [row[columns.split] for row in rows], path)
        if columns.split in rows[0]
        else divided(images, fractions, f"{seed}-{name}-table")
    )
    if "train" not in splits:
        raise InputError(f"{path} has no row with {columns.split} train; mark some rows for training")
    return TaskContent(name, found, splits)


def _read_rows(path: Path) -> list[dict[str, Any]]:
    """All rows as dicts."""
    if not os.path.isfile(path):  # noqa: PTH113
        raise InputError(f"{path} is not a file; give a .csv or .parquet table")
    if path.suffix.lower() == ".csv":
        rows = _read_csv(path)
    elif path.suffix.lower() == ".parquet":
        rows = _read_parquet(path)
    else:
        raise InputError(f"{path} is no .csv or .parquet file; convert the table to one of them")
    if not rows:
        raise InputError(f"{path} has no rows; give one row for each image")
    return rows


def _read_csv(path: Path) -> list[dict[str, Any]]:
    """Rows of a CSV file with a header."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file, strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is not a readable CSV file ({error}); save it as UTF-8 CSV") from error
    for number, row in enumerate(rows):
        if None in row or None in row.values():
            raise InputError(
                f"row {number + 1} of {path} has another number of fields than the header; mend it"
            )
    return [{str(column): value for column, value in row.items()} for row in rows]


def _read_parquet(path: Path) -> list[dict[str, Any]]:
    """Rows of a Parquet file."""
    import pyarrow
    import pyarrow.parquet

    try:
        rows: list[dict[str, Any]] = pyarrow.parquet.read_table(path).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{path} is not a readable Parquet file ({error}); write it again") from error
    return rows


def _require_columns(rows: list[dict[str, Any]], wanted: Sequence[str], path: Path) -> None:
    """Refuse a table without the columns that are needed."""
    for column in wanted:
        if column not in rows[0]:
            raise InputError(
                f"{path} has no column {column!r} among {', '.join(map(str, rows[0]))}; name the right column"
            )


def _given_splits(images: Split, values: Sequence[Any], path: Path) -> dict[str, Split]:
    """Divide by the split column."""
    indices: dict[str, list[int]] = {}
    for index, value in enumerate(values):
        if str(value).lower() not in SPLIT_NAMES:
            raise InputError(f"row {index + 1} of {path} has split {value!r}; write train, val or test")
        indices.setdefault(SPLIT_NAMES[str(value).lower()], []).append(index)
    return {part: images.select(chosen) for part, chosen in indices.items()}
