"""From the labels in a table to class names and numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

from dpw.errors import InputError


def number_labels(
    values: Sequence[Any], classes: Sequence[str] | None, class_names: Mapping[str, str], where: str
) -> tuple[tuple[str, ...], list[int]]:
    """Give class names and the label of each value.

    With `classes`, whole numbers are positions in it and words are members of it. Without, the classes are
    the distinct values, words in ASCII order and numbers in numerical order. `class_names` renames.
    """
    words = [str(value) for value in values]
    numeric = all(word.isdecimal() for word in words)
    if classes is None:
        classes = sorted(set(words), key=int) if numeric else sorted(set(words))
        positions = {word: position for position, word in enumerate(classes)}
    elif numeric:
        positions = {str(position): position for position in range(len(classes))}
    else:
        positions = {name: position for position, name in enumerate(classes)}
    for row, word in enumerate(words):
        if word not in positions:
            raise InputError(
                f"row {row + 1} of {where} has label {word!r}, outside the {len(classes)} classes given; "
                "correct the label or add the class"
            )
    if unknown := sorted(set(class_names) - set(classes)):
        raise InputError(f"class_names renames {unknown[0]!r}, which {where} does not have; remove it")
    return tuple(class_names.get(name, name) for name in classes), [positions[word] for word in words]
