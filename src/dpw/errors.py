"""Errors that a reader may want to catch: one root, and one kind for each thing that can be done about it.

`InputError`: something that was given cannot be used (a name, a value, a file); give something else.
`DamagedFileError`: a stored file is damaged, changed, missing or unsafe; restore it. Also an `InputError`.
`StorageError`: the system refused to write (disk full, no permission); make room. Also an `OSError`.
`Interrupted`: somebody asked to stop, and everything up to the last step is saved; resume.

Every message is one sentence that names the thing, what was expected and what to do. The command line prints
it and exits with code 2 (130 or 143 when a signal stopped it).

The functions at the end turn what somebody gives to a public function into what it should be, or say so.
"""

import math
import operator
import os
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any


class DpwError(Exception):
    """Root of all errors that `dpw` raises on purpose."""


class InputError(DpwError, ValueError):
    """Something that was given (file, value, name) cannot be used."""


class DamagedFileError(InputError):
    """A file of a model, a run or a checkpoint is damaged, changed, missing, foreign or unsafe to read."""


StoreError = DamagedFileError  # its former name


class StorageError(DpwError, OSError):
    """The system refused to write a file; `errno` says why, and nothing that was complete is lost."""

    def __init__(self, message: str, errno: int | None = None) -> None:
        """Keep the number of the system's error beside a sentence that people understand."""
        super().__init__(message)
        self.errno = errno


class Interrupted(DpwError):  # noqa: N818
    """Someone asked to stop; everything up to the last finished step is saved."""


# ----------------------------------------------------------------------------------- arguments of others


def a_path(value: Any, what: str) -> Path:
    """A path that was given as such or as text.

    Example:
        >>> from dpw.errors import a_path
        >>> a_path(None, "folder")
        Traceback (most recent call last):
        ...
        dpw.errors.InputError: folder is None; give a path
    """
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str) or "\0" in text:
        raise wrong(what, value, "a path")
    return Path(text)


def a_text(value: Any, what: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise wrong(what, value, "a text")
    return value


def some_texts(value: Any, what: str) -> tuple[str, ...]:
    """Texts in an order: a list, a tuple, a generator; a single text is no list of its letters."""
    unordered = isinstance(value, str | bytes | Mapping | AbstractSet)
    found = tuple(value) if isinstance(value, Iterable) and not unordered else (None,)
    if not all(isinstance(one, str) for one in found):
        raise wrong(what, value, "a list of texts")
    return tuple(str(one) for one in found)


def refuse_no_settings(value: Any) -> None:
    """Refuse what is given as settings and maps no names to values; None is none given."""
    if not isinstance(value, Mapping | None):
        raise wrong("settings", value, "values by name, as in {'training.epochs': 3}")


def named_texts(value: Any, what: str) -> dict[str, str]:
    """Texts by name."""
    found = dict(value) if isinstance(value, Mapping) else {None: None}
    if not all(isinstance(key, str) and isinstance(one, str) for key, one in found.items()):
        raise wrong(what, value, "texts by name, as in {'n01514668': 'rooster'}")
    return {str(key): str(one) for key, one in found.items()}


def a_whole_number(value: Any, what: str, least: int | None = None) -> int:
    """A whole number, perhaps of numpy; True is none."""
    try:
        found = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        found = None
    if found is None or (least is not None and found < least):
        raise wrong(what, value, "a whole number" + ("" if least is None else f" of at least {least}"))
    return found


def a_number(value: Any, what: str, low: float = -math.inf, high: float = math.inf) -> float:
    """A number within bounds; NaN is none."""
    good = isinstance(value, int | float) or (hasattr(value, "__float__") and hasattr(value, "item"))
    if not good or isinstance(value, bool) or getattr(value, "shape", ()) != () or not low <= value <= high:
        bounds = "" if math.isinf(low) and math.isinf(high) else f" from {low:g} to {high:g}"
        raise wrong(what, value, f"a number{bounds}")
    return float(value)


def a_flag(value: Any, what: str) -> bool:
    """True or False, perhaps of numpy."""
    if not isinstance(value, int) and not (hasattr(value, "item") and getattr(value, "shape", None) == ()):
        raise wrong(what, value, "True or False")
    return bool(value)


def wrong(what: str, value: Any, expected: str) -> InputError:
    """What was given under a name, and what should have been."""
    try:
        shown = " ".join(repr(value).split())
    except Exception:
        shown = f"an object of type {type(value).__name__}"
    return InputError(f"{what} is {shown[:80]}; give {expected}")
