"""The state of a public dataset on disk: what is there, what should be, and everything that is wrong."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpw.data.checks import image_problems, split_problems, structural_problems
from dpw.data.content import PARTS, TaskContent
from dpw.data.public import get_dataset, list_public
from dpw.data.public.catalog import Expected, PublicDataset
from dpw.data.public.listing import Listing
from dpw.data.task import Task
from dpw.errors import InputError


@dataclass(frozen=True)
class DatasetReport:
    """What a check found out about one dataset."""

    name: str
    folder: str
    found: bool
    counts: dict[str, int | None]
    expected: dict[str, int | None]
    problems: list[str] = field(default_factory=list)

    @property
    def usable(self) -> bool:
        """Whether a benchmark could run on it."""
        return self.found and not self.problems

    def as_json(self) -> dict[str, Any]:
        """The report in values that JSON knows."""
        return {
            "name": self.name,
            "folder": self.folder,
            "found": self.found,
            "usable": self.usable,
            "counts": self.counts,
            "expected": self.expected,
            "problems": self.problems,
        }


def check_dataset(
    name: str,
    data_root: Path,
    *,
    protocol: str = "coop",
    seed: int = 0,
    decode: bool = False,
    subset: bool = False,
) -> DatasetReport:
    """Check one dataset, collecting all problems.

    `decode` opens every image; `subset` accepts other numbers of images and classes than the official ones.
    """
    dataset = get_dataset(name)
    folder = data_root / dataset.folder
    expected = _figures(dataset.expected[protocol])
    nothing: dict[str, int | None] = dict.fromkeys(expected)
    try:
        listing = list_public(dataset, data_root, protocol=protocol, seed=seed)
    except InputError as error:
        return DatasetReport(dataset.name, str(folder), folder.is_dir(), nothing, expected, [str(error)])
    counts: dict[str, int | None] = {"classes": len(listing.classes)}
    counts |= {
        part: len(listing.splits[part]) if part in listing.splits else None for part in list(expected)[1:]
    }
    problems = list(listing.problems) + _task_problems(dataset, listing, decode)
    if not subset:
        problems += _figure_problems(folder, counts, expected)
    return DatasetReport(dataset.name, str(folder), True, counts, expected, problems)


def _figures(expected: Expected) -> dict[str, int | None]:
    """The official figures by name."""
    return {"classes": expected.classes, "train": expected.train, "val": expected.val, "test": expected.test}


def _task_problems(dataset: PublicDataset, listing: Listing, decode: bool) -> list[str]:
    """What is wrong with the task that the listing would make."""
    content = TaskContent(dataset.name, listing.classes, listing.splits)
    if problems := structural_problems(content, dataset.templates):
        return problems
    return split_problems(content) + (image_problems(content) if decode else [])


def check_task(name: str, load: Callable[[], Task], *, decode: bool = False) -> DatasetReport:
    """Check a task of one's own, which has no official figures."""
    try:
        task = load()
    except InputError as error:
        nothing: dict[str, int | None] = dict.fromkeys(("classes", *PARTS))
        return DatasetReport(name, "", False, nothing, nothing, [str(error)])
    sizes = {part: len(split) for part, split in task.splits().items()}
    counts: dict[str, int | None] = {
        "classes": len(task.classes),
        **{part: sizes.get(part) for part in PARTS},
    }
    content = task.content()
    problems = split_problems(content) + (image_problems(content) if decode else [])
    return DatasetReport(name, "", True, counts, counts, problems)


def _figure_problems(
    folder: Path, counts: dict[str, int | None], expected: dict[str, int | None]
) -> list[str]:
    """Figures that differ from the official ones."""
    return [
        f"{folder} has {counts[what]} {what if what == 'classes' else what + ' images'} instead of "
        f"{expected[what]}; complete the dataset, or accept a subset with --subset"
        for what in expected
        if counts[what] != expected[what]
    ]
