"""Cosines between images and class texts, where the text features depend on each image's own weight."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Literal

import torch
from torch import Tensor

from dpw.methods.candidates import ClassGroup

# encode(task, group, weight (W,), filtered (W,)) gives normalised class features (W, C, E).
Encode = Callable[[int, ClassGroup, Tensor, Tensor], Tensor]


KEPT_CLASSES = 100_000  # exactly encoded class features that are kept, 200 MB at 512 numbers each


# What is stored of a task's own classes: features (C, E) by grid point and whether prefixes are filtered.
Kept = Mapping[tuple[int, bool], Tensor]
Stored = Callable[[int, ClassGroup], Kept | None]


def _nothing(task: int, group: ClassGroup) -> None:  # noqa: ARG001
    """Nothing is stored."""
    return


def _one(group: ClassGroup) -> int:  # noqa: ARG001
    """Every point by itself."""
    return 1


def points_of(points: int, gate: float) -> list[tuple[int, bool]]:
    """The grid points that images below the gate (filtered) and above it can ask for."""
    below = [(cell, True) for cell in range(min(points, math.ceil(gate * points)) + 1)]
    return below + [(cell, False) for cell in range(min(points - 1, math.floor(gate * points)), points + 1)]


class WeightedTexts:
    """Text features for any weight: encoded exactly, or read from a grid that is filled once."""

    def __init__(
        self,
        encode: Encode,
        mode: Literal["exact", "grid"],
        points: int,
        stored: Stored = _nothing,
        at_once: Callable[[ClassGroup], int] = _one,
    ) -> None:
        """`points` is the number of intervals of the grid over weights from 0 to 1.

        `stored(task, group)` gives what `grid` made for a group when its task was learned, or None;
        `at_once(group)` how many neighbouring points are encoded together.
        """
        self.encode, self.stored, self.at_once = encode, stored, at_once
        self.mode = mode
        self.points = points
        self._grid: dict[tuple[int, ClassGroup, int, bool], Tensor] = {}
        self._encoded: dict[tuple[int, ClassGroup, float, bool], Tensor] = {}

    def clear(self) -> None:
        """Drop all kept text features, because tasks have moved."""
        self._grid.clear()
        self._encoded.clear()

    def cosines(
        self, features: Tensor, task: int, group: ClassGroup, weight: Tensor, filtered: Tensor
    ) -> Tensor:
        """Cosine `(B, C)` of every image with the group's classes at the image's own text weight."""
        if self.mode == "exact":
            return self._exact(features, task, group, weight, filtered)
        return self._interpolated(features, task, group, weight, filtered)

    def _exact(
        self, features: Tensor, task: int, group: ClassGroup, weight: Tensor, filtered: Tensor
    ) -> Tensor:
        """Encode the texts once for each different weight."""
        out = features.new_empty(len(features), len(group.classes))
        for value, gate, rows in _equal_rows(weight, filtered):
            texts = self._exactly(task, group, value, gate)
            out[rows] = (features[rows] @ texts.to(features).T).to(out)
        return out

    def _exactly(self, task: int, group: ClassGroup, weight: float, gate: bool) -> Tensor:
        """Class features `(C, E)` at one weight; the latest are kept."""
        key = task, group, weight, gate
        if key not in self._encoded:
            while self._encoded and (len(self._encoded) + 1) * len(group.classes) > KEPT_CLASSES:
                del self._encoded[next(iter(self._encoded))]
            weights = torch.tensor([weight], dtype=torch.float64)
            self._encoded[key] = self.encode(task, group, weights, torch.tensor([gate]))[0]
        return self._encoded[key]

    def _interpolated(
        self, features: Tensor, task: int, group: ClassGroup, weight: Tensor, filtered: Tensor
    ) -> Tensor:
        """Read between two grid points: the cosine with the normalised mixture of their text features."""
        position = weight.clamp(0, 1) * self.points
        lower = position.floor().clamp(max=self.points - 1)
        cells = [(int(cell), bool(gate), rows) for cell, gate, rows in _equal_rows(lower, filtered)]
        self._fill(task, group, {(cell + step, gate) for cell, gate, _ in cells for step in (0, 1)})
        out = features.new_empty(len(features), len(group.classes))
        for cell, gate, rows in cells:
            low, high = (self._grid[task, group, cell + step, gate].to(features) for step in (0, 1))
            share = (position[rows] - cell).to(features)[:, None]
            mixed = (1 - share) * (features[rows] @ low.T) + share * (features[rows] @ high.T)
            # ‖(1−a)·low + a·high‖², both being unit vectors.
            alike = (low * high).sum(dim=-1)
            length = ((1 - share) ** 2 + share**2 + 2 * share * (1 - share) * alike).sqrt()
            out[rows] = (mixed / length).to(out)
        return out

    def _fill(self, task: int, group: ClassGroup, needed: set[tuple[int, bool]]) -> None:
        """Look up or encode grid points that are missing; they hold because a learned task never changes."""
        missing = {point for point in needed if (task, group, *point) not in self._grid}
        kept = (self.stored(task, group) if missing else None) or {}
        found = self._encode_points(task, group, missing - kept.keys())
        found |= kept  # what is stored counts, also where it was encoded along with others
        self._grid.update({(task, group, *point): features for point, features in found.items()})

    def _encode_points(
        self, task: int, group: ClassGroup, points: Collection[tuple[int, bool]]
    ) -> dict[tuple[int, bool], Tensor]:
        """Class features `(C, E)` at points of the grid and at those that are encoded with them.

        A point always has the same company, so that its digits do not depend on what was asked before.
        """
        found: dict[tuple[int, bool], Tensor] = {}
        company = self.at_once(group)
        for first, gate in sorted({(cell - cell % company, gate) for cell, gate in points}):
            cells = range(first, min(first + company, self.points + 1))
            weights = torch.tensor(cells, dtype=torch.float64) / self.points
            encoded = self.encode(task, group, weights, torch.full((len(cells),), gate))
            found |= {(cell, gate): features for cell, features in zip(cells, encoded, strict=True)}
        return found

    def grid(self, task: int, group: ClassGroup, gate: float) -> Tensor:
        """Class features `(P, C, E)` at all points that an image can ask for, in the order of `points_of`."""
        points = points_of(self.points, gate)
        found = self._encode_points(task, group, points)
        return torch.stack([found[point] for point in points])


def _equal_rows(value: Tensor, filtered: Tensor) -> Iterator[tuple[float, bool, Tensor]]:
    """Rows that share a value and a gate, with both."""
    found: dict[tuple[float, bool], list[int]] = {}
    for row, pair in enumerate(zip(value.tolist(), filtered.tolist(), strict=True)):
        found.setdefault(pair, []).append(row)
    for pair in sorted(found):
        yield *pair, torch.tensor(found[pair])
