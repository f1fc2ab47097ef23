"""What a dataset's files say: class names, images of each split, and everything that is wrong with them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from dpw.data.draws import divide
from dpw.data.root import Root
from dpw.data.split import Split
from dpw.errors import InputError

Entry = tuple[str, int]


@dataclass(frozen=True)
class Listing:
    """The classes and splits found, with one sentence for each entry that could not be used."""

    classes: tuple[str, ...]
    splits: Mapping[str, Split]
    problems: list[str] = field(default_factory=list)


class Rule(Protocol):
    """One way to find classes and splits in a dataset's folder."""

    def read(self, root: Root, key: str) -> Listing:
        """List everything; `key` (seed and dataset) decides all draws."""
        ...


def list_files(
    root: Root, classes: Sequence[str], parts: Mapping[str, Sequence[Entry]], named_by: str
) -> Listing:
    """Check that every named file is there and inside the root; keep those that are."""
    problems: list[str] = []
    splits: dict[str, Split] = {}
    for part, entries in parts.items():
        paths: list[str] = []
        labels: list[int] = []
        for name, label in entries:
            if problem := root.problem(name, named_by):
                problems.append(problem)
            else:
                paths.append(root.path_text(name))
                labels.append(label)
        splits[part] = Split.from_files(paths, labels)
    return Listing(tuple(classes), splits, problems)


def with_val(listing: Listing, fraction: float, key: str) -> Listing:
    """Take a share of each class out of train for val, once and for all; nothing is in both."""
    train = listing.splits["train"]
    val_indices, train_indices = divide(train.labels, (fraction,), f"{key}-val")
    splits = {**listing.splits, "train": train.select(train_indices), "val": train.select(val_indices)}
    return Listing(listing.classes, splits, listing.problems)


def read_lines(path: Path) -> list[str]:
    """The non-empty lines of a text file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as text ({error}); download it again") from error
    return [line.strip() for line in lines if line.strip()]


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON ({error}); download it again") from error
