"""What more prefixes buy: learned parameters against mean accuracy, from several finished runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpw.errors import InputError
from dpw.runs.gathering import Run, sections

FREE = ("prefix_length", "seed")  # in what the points of one line may differ


@dataclass(frozen=True)
class LengthPoint:
    """One prefix length of one method, averaged over seeds."""

    length: int
    parameters: int
    mean: float


def accuracy_by_prefix_length(runs: Sequence[Run]) -> dict[str, list[LengthPoint]]:
    """By method the points of all runs that have prefixes, shortest first.

    Runs under other conditions than the first one do not compare with it and are left out, and so are those
    that differ from the first of their method in more than the length.
    """
    found: dict[str, list[LengthPoint]] = {}
    first: dict[str, dict[str, Any]] = {}
    for group in sections(runs)[0].groups if runs else ():
        length, mean = group.first["method_config"].get("prefix_length"), group.metric("mean")
        rest = {key: value for key, value in group.first["method_config"].items() if key not in FREE}
        if length is not None and mean is not None and first.setdefault(group.method, rest) == rest:
            point = LengthPoint(int(length), round(group.parameters), mean.mean)
            found.setdefault(group.method, []).append(point)
    if not found:
        raise InputError("none of the runs has prefixes and a mean accuracy: give runs of dpw or diki")
    return {
        method: sorted(points, key=lambda point: (point.length, point.parameters))
        for method, points in found.items()
    }
