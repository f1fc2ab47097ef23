"""What can be wrong with a task's images; every finding is one sentence, and all of them are collected."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from dpw.data.split import Split
from dpw.data.task import Task
from dpw.errors import InputError


def checked_task(
    name: str, classes: Sequence[str], templates: Sequence[str], protocol: str, splits: Mapping[str, Split]
) -> Task:
    """Make a task of its splits; the first problem that can be seen without decoding is raised."""
    task = Task(
        name=name,
        classes=tuple(classes),
        templates=tuple(templates),
        protocol=protocol,
        train=splits["train"],
        val=splits.get("val"),
        test=splits.get("test"),
    )
    if problems := split_problems(task):
        raise InputError(problems[0])
    return task


def split_problems(task: Task) -> list[str]:
    """Images in two splits and classes that cannot be learnt, seen without decoding anything."""
    return _shared_places(task) + _classes_without_training_images(task)


def image_problems(task: Task) -> list[str]:
    """Images that cannot be decoded and files of equal content in two splits; reads every image once."""
    problems = []
    for split in task.splits().values():
        for index in range(len(split)):
            try:
                split[index]
            except InputError as error:
                problems.append(str(error))
    return problems + _shared_content(task)


def _shared_places(task: Task) -> list[str]:
    """Images that are listed in two splits, or twice in one."""
    first_seen: dict[str, str] = {}
    problems = []
    for name, split in task.splits().items():
        for index in range(len(split)):
            place = split.where(index)
            if place in first_seen:
                where = (
                    f"twice in {name}" if first_seen[place] == name else f"in {first_seen[place]} and {name}"
                )
                problems.append(f"{place} is {where} of {task.name}; remove one of the two entries")
            first_seen.setdefault(place, name)
    return problems


def _classes_without_training_images(task: Task) -> list[str]:
    """Classes nothing can be learnt about."""
    counts = Counter(task.train.labels)
    return [
        f"class {name!r} of {task.name} has no training images; add some or remove the class"
        for label, name in enumerate(task.classes)
        if not counts[label]
    ]


def _shared_content(task: Task) -> list[str]:
    """Files of equal bytes in different splits; only files of equal size are compared."""
    by_size: dict[int, list[tuple[str, Path]]] = defaultdict(list)
    for name, split in task.splits().items():
        for path in _files(split):
            by_size[path.stat().st_size].append((name, path))
    problems = []
    for group in by_size.values():
        seen: dict[bytes, tuple[str, Path]] = {}
        for name, path in group if len({name for name, _ in group}) > 1 else []:
            digest = hashlib.sha256(path.read_bytes()).digest()
            other, twin = seen.setdefault(digest, (name, path))
            if other != name and twin != path:
                problems.append(
                    f"{path} ({name}) has the same content as {twin} ({other}) of {task.name}; "
                    "remove one of the two"
                )
    return problems


def _files(split: Split) -> list[Path]:
    """The existing, non-empty files among a split's images."""
    paths = (Path(split.where(index)) for index in range(len(split)))
    return [path for path in paths if path.is_file() and path.stat().st_size > 0]
