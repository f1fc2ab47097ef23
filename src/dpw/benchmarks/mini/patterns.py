"""Texture patterns as functions of position: where the second of two colours goes."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Field = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def _fraction(values: Field) -> Field:
    """Give the part after the decimal point, also for negative numbers."""
    return values - np.floor(values)


def _stripes(_: Field, y: Field) -> Mask:
    """Bands of equal width."""
    return np.asarray(_fraction(y) < 0.5)


def _bricks(x: Field, y: Field) -> Mask:
    """Mortar lines between rows of bricks that are shifted by half a brick."""
    row = np.floor(y * 1.6)
    along = _fraction(x * 0.8 + 0.5 * (row % 2))
    return (_fraction(y * 1.6) < 0.2) | (along < 0.1)


def _scales(x: Field, y: Field) -> Mask:
    """Rows of overlapping half circles, as on a fish or a roof."""
    row = np.floor(y * 1.4)
    across = _fraction(x + 0.5 * (row % 2)) - 0.5
    down = _fraction(y * 1.4)
    return np.abs(np.hypot(across, down * 0.6) - 0.5) < 0.1


def _honeycomb(x: Field, y: Field) -> Mask:
    """Walls between hexagonal cells: points nearly as far from two centres."""
    best = np.full(x.shape, 9.0)
    second = best.copy()
    height = np.sqrt(3.0)
    for shift_x, shift_y in ((0.0, 0.0), (0.5, height / 2)):
        dx, dy = x - shift_x, (y - shift_y) / height
        for i in (0, 1):
            for j in (0, 1):
                cell_x = np.floor(dx) + i
                cell_y = (np.floor(dy) + j) * height
                far = np.hypot(dx - cell_x, dy * height - cell_y)
                second = np.minimum(second, np.maximum(best, far))
                best = np.minimum(best, far)
    return np.asarray(second - best < 0.16)


PATTERNS: dict[str, Callable[[Field, Field], Mask]] = {
    "striped": _stripes,
    "checked": lambda x, y: (_fraction(x * 0.6) < 0.5) ^ (_fraction(y * 0.6) < 0.5),
    "dotted": lambda x, y: np.hypot(_fraction(x) - 0.5, _fraction(y) - 0.5) < 0.3,
    "wavy": lambda x, y: _fraction(y + 0.3 * np.sin(2.6 * x)) < 0.5,
    "zigzag": lambda x, y: _fraction(y + np.abs(_fraction(x * 0.6) - 0.5) * 1.3) < 0.5,
    "brick": _bricks,
    "grid": lambda x, y: (_fraction(x) < 0.2) | (_fraction(y) < 0.2),
    "ringed": lambda x, y: _fraction(np.hypot(x, y)) < 0.5,
    "scaly": _scales,
    "honeycomb": _honeycomb,
    "rayed": lambda x, y: _fraction(np.arctan2(y, x) / (2 * np.pi) * 10) < 0.5,
    "spiral": lambda x, y: _fraction(np.hypot(x, y) * 0.8 + np.arctan2(y, x) / (2 * np.pi)) < 0.5,
}
