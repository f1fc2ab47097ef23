"""Loops and sets in assertions must not pass because there was nothing to look at."""

from collections.abc import Iterable
from typing import TypeVar

Value = TypeVar("Value")


def nonempty(values: Iterable[Value]) -> list[Value]:
    """The same values as a list; there must be some."""
    found = list(values)
    assert found, "there is nothing to check"
    return found
