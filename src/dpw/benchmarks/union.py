"""The classes of several tasks as one list, for settings without task ids."""

from collections.abc import Sequence
from dataclasses import dataclass

from dpw.data.task import Task


@dataclass(frozen=True)
class ClassUnion:
    """All classes of some tasks.

    `names[u]` is a class, `places[t][c]` the number `u` of class `c` of task `t`, and `owners[u]` all the
    pairs (t, c) that share it: always one without merging.
    """

    names: tuple[str, ...]
    places: tuple[tuple[int, ...], ...]
    owners: tuple[tuple[tuple[int, int], ...], ...]


def unite_classes(tasks: Sequence[Task], *, merge_equal_names: bool) -> ClassUnion:
    """Put the classes of all tasks one after another; equal names are one class only when asked for.

    Names are compared as prompts show them, with spaces for underscores.
    """
    names: list[str] = []
    owners: list[list[tuple[int, int]]] = []
    places: list[tuple[int, ...]] = []
    known: dict[str, int] = {}
    for task_number, task in enumerate(tasks):
        row = []
        for label, name in enumerate(task.classes):
            shown = name.replace("_", " ")
            number = known.get(shown) if merge_equal_names else None
            if number is None:
                number = len(names)
                names.append(name)
                owners.append([])
                known[shown] = number
            owners[number].append((task_number, label))
            row.append(number)
        places.append(tuple(row))
    return ClassUnion(tuple(names), tuple(places), tuple(tuple(pairs) for pairs in owners))
