"""Loops and sets in assertions must not pass because there was nothing to look at."""

from collections.abc import Iterable
from typing import TypeVar

import torch
from torch import Tensor

from dpw.methods import Method
from dpw.methods.rail import SMALLEST

Value = TypeVar("Value")


def nonempty(values: Iterable[Value]) -> list[Value]:
    """The same values as a list; there must be some."""
    found = list(values)
    assert found, "there is nothing to check"
    return found


def assert_alike(method: Method, found: Tensor, expected: Tensor, rtol: float = 1e-4) -> None:
    """Logits are equal but for what float32 rounds off.

    RAIL passes a score that is not positive on a million times as steeply, and its rounding, too: its scores
    are compared instead, in their own unit.
    """
    if method.name == "rail":
        torch.testing.assert_close(_scores(found), _scores(expected), rtol=1e-4, atol=1e-6)
    else:
        torch.testing.assert_close(found, expected, rtol=rtol, atol=1e-4)


def _scores(logits: Tensor) -> Tensor:
    """The scores that `as_logits` made logits of."""
    logits, edge = logits.double(), torch.tensor(SMALLEST, dtype=torch.float64).log()
    return torch.where(logits > edge, logits.exp(), SMALLEST + SMALLEST * (logits - edge))
