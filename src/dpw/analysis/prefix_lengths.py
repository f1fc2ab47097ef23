"""What more prefixes buy: learned parameters against mean accuracy, from several finished runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from dpw.engine.metrics import spread
from dpw.errors import InputError
from dpw.runs.gathering import Run


@dataclass(frozen=True)
class LengthPoint:
    """One prefix length of one method, averaged over seeds."""

    length: int
    parameters: int
    mean: float


def accuracy_by_prefix_length(runs: Sequence[Run]) -> dict[str, list[LengthPoint]]:
    """By method the points of all runs that have prefixes, shortest first."""
    found: dict[str, dict[tuple[int, int], list[float]]] = {}
    for run in runs:
        length, mean = run.results["method_config"].get("prefix_length"), run.results["metrics"]["mean"]
        if length is not None and mean is not None:
            key = (int(length), int(run.results["parameters"]))
            found.setdefault(str(run.results["method"]), {}).setdefault(key, []).append(mean)
    if not found:
        raise InputError("none of the runs has prefixes and a mean accuracy: give runs of dpw or diki")
    return {
        method: [_point(*key, values) for key, values in sorted(points.items())]
        for method, points in found.items()
    }


def _point(length: int, parameters: int, values: list[float]) -> LengthPoint:
    """The mean over seeds."""
    each = spread(values)
    assert each is not None
    return LengthPoint(length, parameters, each.mean)
