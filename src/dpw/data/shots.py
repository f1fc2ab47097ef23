"""Few-shot versions of a task: drawn by a seed, or read from a published list."""

import dataclasses
from pathlib import Path, PurePosixPath
from typing import Any

from dpw.data.draws import VAL_SHOTS_AT_MOST, few_shot
from dpw.data.public.listing import read_json
from dpw.data.split import Split
from dpw.data.task import Task
from dpw.errors import InputError


def few_shot_task(task: Task, shots: int, seed: int, refill: bool = False) -> Task:
    """Keep `shots` training and at most four validation images of each class; test stays complete.

    The draw depends only on (seed, task name, split). With `refill` a class with fewer training images is
    drawn with repetition.
    """
    if shots < 1:
        raise InputError(f"shots is {shots}; give a whole number of at least 1")
    return dataclasses.replace(
        task,
        train=_drawn(task.train, shots, seed, task.name, "train", refill),
        val=None
        if task.val is None
        else _drawn(task.val, min(shots, VAL_SHOTS_AT_MOST), seed, task.name, "val"),
    )


def _drawn(split: Split, shots: int, seed: int, dataset: str, name: str, refill: bool = False) -> Split:
    """Draw from one split."""
    rows = few_shot(split.labels, shots, seed=seed, dataset=dataset, split=name, refill=refill)
    return split.select(rows)


def listed_task(task: Task, list_path: Path, folder: str, drawn_val: Split | None = None) -> Task:
    """Keep the images of a published list: `train` and `val` with entries impath, label, classname.

    `folder` is the dataset's folder name; what stands before it in a listed path is ignored. `drawn_val` are
    the validation images where the list names none.
    """
    content = read_json(list_path)
    if not isinstance(content, dict) or "train" not in content:
        raise InputError(f"{list_path} has no list train; give a file such as shot_16-seed_1.json")
    train = _listed(task.train, content["train"], list_path, folder)
    listed_val = task.val is not None and "val" in content
    val = _listed(task.val, content["val"], list_path, folder) if task.val and listed_val else drawn_val
    return dataclasses.replace(task, train=train, val=val)


def _listed(split: Split, part: Any, list_path: Path, folder: str) -> Split:
    """The images of one list, in its order."""
    entries = part.get("data") if isinstance(part, dict) else part
    if not isinstance(entries, list):
        raise InputError(f"{list_path} holds no list of images; give a file such as shot_16-seed_1.json")
    by_name: dict[str, list[int]] = {}
    for index in range(len(split)):
        by_name.setdefault(PurePosixPath(split.where(index)).name, []).append(index)
    return split.select([_listed_index(split, entry, by_name, list_path, folder) for entry in entries])


def _listed_index(
    split: Split, entry: Any, by_name: dict[str, list[int]], list_path: Path, folder: str
) -> int:
    """Where in the split a listed image is; its label must agree."""
    match entry:
        case {"impath": str() as path, "label": int() as label}:
            pass
        case _:
            raise InputError(f"{list_path} has the entry {entry!r:.80}; expected impath, label and classname")
    parts = PurePosixPath(path).parts
    tail = parts[parts.index(folder) + 1 :] if folder in parts else parts
    for index in by_name.get(parts[-1], []) if parts else []:
        if PurePosixPath(split.where(index)).parts[-len(tail) :] == tail:
            if split.labels[index] == label:
                return index
            raise InputError(
                f"{list_path} gives {path} label {label}, the split {split.labels[index]}; "
                "use a list made for this split file"
            )
    raise InputError(
        f"{list_path} lists {path}, which is not in the split; use a list made for this split file"
    )
