"""Seeded draws that depend on nothing but what they are given: splits by fraction and few-shot subsets."""

import random
from collections.abc import Sequence

VAL_SHOTS_AT_MOST = 4


def by_class(labels: Sequence[int]) -> dict[int, list[int]]:
    """Indices of the images of each class, classes in order of first appearance."""
    indices: dict[int, list[int]] = {}
    for index, label in enumerate(labels):
        indices.setdefault(label, []).append(index)
    return indices


def divide(labels: Sequence[int], fractions: Sequence[float], key: str) -> list[list[int]]:
    """Divide each class by fractions, rounded; what is left over comes last.

    A class of two or more keeps at least one image in the last part, so that it can be learnt.
    """
    generator = random.Random(key)
    parts: list[list[int]] = [[] for _ in range(len(fractions) + 1)]
    for indices in by_class(labels).values():
        shuffled = list(indices)
        generator.shuffle(shuffled)
        start = 0
        for part, fraction in zip(parts[:-1], fractions, strict=True):
            stop = min(start + round(fraction * len(indices)), len(indices) - 1)
            part += shuffled[start:stop]
            start = stop
        parts[-1] += shuffled[start:]
    return [sorted(part) for part in parts]


def few_shot(
    labels: Sequence[int], shots: int, *, seed: int, dataset: str, split: str, refill: bool = False
) -> list[int]:
    """Draw `shots` images of each class, by (seed, dataset, split) alone.

    Where there are fewer, all are taken, or with `refill` so many are drawn with repetition.
    """
    generator = random.Random(f"{seed}-{dataset}-{split}")
    chosen: list[int] = []
    for indices in by_class(labels).values():
        if refill and len(indices) < shots:
            chosen += generator.choices(indices, k=shots)
        else:
            chosen += generator.sample(indices, min(shots, len(indices)))
    return chosen
