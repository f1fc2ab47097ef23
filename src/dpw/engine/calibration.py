"""Whether probabilities mean what they say, and whether strangers can be told from what was learned."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BINS = 15


@dataclass(frozen=True)
class Bin:
    """Answers whose probability lies in an interval: how many, how sure on average, how many right."""

    low: float
    high: float
    images: int
    probability: float | None
    accuracy: float | None


@dataclass(frozen=True)
class Calibration:
    """The expected calibration error (a share in [0, 1]) and the bins it is the mean of."""

    error: float
    bins: tuple[Bin, ...]


def calibration(probabilities: Sequence[float], right: Sequence[bool], bins: int = BINS) -> Calibration:
    """ECE over bins of equal width: the mean distance of probability and accuracy, weighted by images."""
    sure, correct = np.asarray(probabilities, dtype=float), np.asarray(right, dtype=float)
    # An interval holds its upper end, as is usual; a probability of 0 belongs to the first.
    index = np.clip(np.ceil(sure * bins).astype(int) - 1, 0, bins - 1)
    found = []
    for number in range(bins):
        inside = index == number
        count = int(inside.sum())
        means = (float(sure[inside].mean()), float(correct[inside].mean())) if count else (None, None)
        found.append(Bin(number / bins, (number + 1) / bins, count, *means))
    distances = [
        one.images * abs(one.probability - one.accuracy)
        for one in found
        if one.probability is not None and one.accuracy is not None
    ]
    return Calibration(sum(distances) / max(len(sure), 1), tuple(found))


def auroc(known: Sequence[float], strange: Sequence[float]) -> float:
    """How often a known image scores above a strange one; equal scores count half."""
    ordered, others = np.sort(np.asarray(known, dtype=float)), np.asarray(strange, dtype=float)
    below = np.searchsorted(ordered, others, side="left")
    upto = np.searchsorted(ordered, others, side="right")
    above = len(ordered) - upto + (upto - below) / 2
    return float(above.mean() / len(ordered))


def share_below(scores: Sequence[float], threshold: float) -> float:
    """The share of scores below a threshold."""
    return float((np.asarray(scores, dtype=float) < threshold).mean())


def share_up_to(scores: Sequence[float], level: float) -> float:
    """The share of scores that are a level or less."""
    return float((np.asarray(scores, dtype=float) <= level).mean())


def threshold_at(known: Sequence[float], level: float) -> float:
    """The threshold below which at most a share `level` of the known scores lies."""
    ordered = np.sort(np.asarray(known, dtype=float))
    return float(ordered[min(int(level * len(ordered)), len(ordered) - 1)])
