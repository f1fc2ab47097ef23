"""What a task's data is, in one short text: names, sizes, labels and splits, without decoding any image."""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence

from dpw.data.split import Split
from dpw.data.task import Task
from dpw.errors import InputError

WHOLE_BYTES = 64 << 20  # files of a split that are no bigger together are hashed whole


def task_digest(task: Task) -> str:
    """Identify classes, templates, protocol, labels and images of a task; the same wherever its folder lies.

    Files count by their name below the folder that holds them all and by their size, in small splits also by
    their content; images from elsewhere count by their key.
    """
    digest = hashlib.sha256()
    said = [task.name, task.protocol, list(task.classes), list(task.templates)]
    digest.update(json.dumps(said).encode())
    for name, split in task.splits().items():
        digest.update(json.dumps([name, list(split.labels)]).encode())
        for image in _images(split):
            digest.update(f"{image}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _images(split: Split) -> Iterator[str]:
    """One line for each image of a split."""
    paths = split.paths()
    if paths is None:
        yield from (split.key(index) for index in range(len(split)))
        return
    sizes = [_size(path) for path in paths]
    whole = sum(sizes) <= WHOLE_BYTES
    above = _common_folder(paths)
    for path, size in zip(paths, sizes, strict=True):
        content = f"|{_content(path)}" if whole else ""
        yield f"{os.path.relpath(path, above)}|{size}{content}"


def _common_folder(paths: Sequence[str]) -> str:
    """The folder that holds all files, as near to them as can be."""
    absolute = [os.path.abspath(path) for path in paths]  # noqa: PTH100 (links stay links)
    return os.path.commonpath([os.path.dirname(path) for path in absolute]) if paths else ""  # noqa: PTH120


def _size(path: str) -> int:
    """Bytes of a file."""
    try:
        return os.stat(path).st_size  # noqa: PTH116 (ten times as fast)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be looked at ({error}); restore it or remove its entry") from error


def _content(path: str) -> str:
    """SHA-256 of a file's content; what is no plain file has none."""
    if not os.path.isfile(path):  # noqa: PTH113
        return "no file"
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); mend its rights or remove it") from error
