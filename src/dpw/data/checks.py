"""What can be wrong with a task; every problem is one sentence, and all of them are collected."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from dpw.data.content import TaskContent
from dpw.data.prompts import readable
from dpw.data.split import Split
from dpw.errors import InputError


def structural_problems(content: TaskContent, templates: Sequence[str]) -> list[str]:
    """Everything wrong with names, templates and labels; empty when all is well."""
    task, classes = content.name, content.classes
    problems = []
    if not task or "/" in task:
        problems.append(f"task name {task!r} must be a word without slashes; choose another name")
    if not classes:
        problems.append(f"task {task} has no classes; give at least one class with images")
    for alike in _names_read_alike(classes):
        named = f"{len(alike)} classes called {alike[0]!r}"
        if len(set(alike)) > 1:
            named = f"classes called {' and '.join(map(repr, alike))}, which read alike"
        problems.append(f"task {task} has {named}; rename or merge them")
    if not templates:
        problems.append(f"task {task} has no prompt template; give one such as 'a photo of a {{}}.'")
    for template in templates:
        if template.count("{}") != 1:
            problems.append(f"template {template!r} of task {task} needs exactly one {{}} for the class")
    for split_name, split in content.ordered():
        problems += _label_problems(f"{split_name} of {task}", split, len(classes))
    return problems


def _names_read_alike(classes: Sequence[str]) -> list[list[str]]:
    """Names that are one name to a person, and one prompt to a text tower."""
    found: dict[str, list[str]] = defaultdict(list)
    for name in classes:
        found[readable(name)].append(name)
    return [names for names in found.values() if len(names) > 1]


def split_problems(content: TaskContent) -> list[str]:
    """Images in two splits and classes that cannot be learnt, seen without decoding anything."""
    return _repeated_images(content) + _classes_without_training_images(content)


def image_problems(content: TaskContent) -> list[str]:
    """Images that cannot be decoded and files of equal content in two splits; reads every image once."""
    problems = []
    for _, split in content.ordered():
        for index in range(len(split)):
            try:
                split[index]
            except InputError as error:
                problems.append(str(error))
    return problems + _equal_files(content)


def _label_problems(where: str, split: Split, classes: int) -> list[str]:
    """Labels that point outside the class list, each named once."""
    wrong = sorted({label for label in split.labels if not 0 <= label < classes})
    return [
        f"label {label} of {split.where(split.labels.index(label))} ({where}) is outside 0..{classes - 1}; "
        "correct the label or add the class"
        for label in wrong
    ]


def _repeated_images(content: TaskContent) -> list[str]:
    """Images that are listed in two splits, or twice in one."""
    first_split: dict[str, str] = {}
    problems = []
    for name, split in content.ordered():
        for index in range(len(split)):
            image = split.where(index)
            if image in first_split:
                other = first_split[image]
                where = f"twice in {name}" if other == name else f"in {other} and {name}"
                problems.append(f"{image} is {where} of {content.name}; remove one of the two entries")
            first_split.setdefault(image, name)
    return problems


def _classes_without_training_images(content: TaskContent) -> list[str]:
    """Classes nothing can be learnt about."""
    counts = Counter(content.splits["train"].labels)
    return [
        f"class {name!r} of {content.name} has no training images; add some or remove the class"
        for label, name in enumerate(content.classes)
        if not counts[label]
    ]


def _equal_files(content: TaskContent) -> list[str]:
    """Files of equal bytes in different splits; only files of equal size are compared."""
    by_size: dict[int, list[tuple[str, Path]]] = defaultdict(list)
    for name, split in content.ordered():
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
                    f"{path} ({name}) has the same content as {twin} ({other}) of {content.name}; "
                    "remove one of the two"
                )
    return problems


def _files(split: Split) -> list[Path]:
    """The existing, non-empty files among a split's images."""
    paths = (Path(split.where(index)) for index in range(len(split)))
    return [path for path in paths if path.is_file() and path.stat().st_size > 0]
