"""What readers of folders, tables and datasets return: the plain parts that a task is made of."""

from collections.abc import Mapping
from typing import NamedTuple

from dpw.data.draws import divide
from dpw.data.split import Split
from dpw.errors import InputError

PARTS = ("train", "val", "test")


class TaskContent(NamedTuple):
    """Name, class names and splits (`train`, perhaps `val` and `test`) as found, not yet checked."""

    name: str
    classes: tuple[str, ...]
    splits: Mapping[str, Split]

    def ordered(self) -> list[tuple[str, Split]]:
        """The splits that exist, in the order train, val, test."""
        return [(part, self.splits[part]) for part in PARTS if part in self.splits]


def divided(images: Split, fractions: tuple[float, float], key: str) -> dict[str, Split]:
    """Divide images by class into val, test and, with the rest, train; `key` seeds the draw."""
    val, test = fractions
    if not (0 <= val < 1 and 0 <= test < 1 and val + test < 1):
        raise InputError(
            f"fractions val={val} and test={test} leave nothing to train on; choose smaller ones"
        )
    parts = dict(zip(("val", "test", "train"), divide(images.labels, fractions, key), strict=True))
    return {part: images.select(indices) for part, indices in parts.items() if indices}
