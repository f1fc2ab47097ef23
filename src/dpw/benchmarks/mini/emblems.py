"""Flags and road signs as flat coloured parts; who draws them decides on light, cloth and place."""

from typing import NamedTuple

import numpy as np

from dpw.benchmarks.mini.canvas import Points, box, disc, move, polygon
from dpw.benchmarks.mini.shapes import ARROW, regular, star


class Patch(NamedTuple):
    """One polygon and the name of its colour."""

    colour: str
    points: Points


def _rows(*colours: str) -> tuple[Patch, ...]:
    """Equal horizontal bands, from the top."""
    edges = np.linspace(-1, 1, len(colours) + 1)
    return tuple(Patch(c, box(-1, edges[i], 1, edges[i + 1])) for i, c in enumerate(colours))


def _columns(*colours: str) -> tuple[Patch, ...]:
    """Equal vertical bands, from the left."""
    edges = np.linspace(-1, 1, len(colours) + 1)
    return tuple(Patch(c, box(edges[i], -1, edges[i + 1], 1)) for i, c in enumerate(colours))


def _nordic(field: str, cross: str) -> tuple[Patch, ...]:
    """A cross whose upright stands left of the middle."""
    return (
        Patch(field, box(-1, -1, 1, 1)),
        Patch(cross, box(-0.5, -1, -0.14, 1)),
        Patch(cross, box(-1, -0.24, 1, 0.24)),
    )


# Flags fill [-1, 1]² and are squeezed to their proportion when drawn.
FLAGS: dict[str, tuple[Patch, ...]] = {
    "France": _columns("blue", "white", "red"),
    "Italy": _columns("green", "white", "red"),
    "Nigeria": _columns("green", "white", "green"),
    "Germany": _rows("black", "red", "yellow"),
    "Ukraine": _rows("blue", "yellow"),
    "Poland": _rows("white", "red"),
    "Japan": (Patch("white", box(-1, -1, 1, 1)), Patch("red", disc(0, 0, 0.4, 0.6))),
    "Sweden": _nordic("blue", "yellow"),
    "Denmark": _nordic("red", "white"),
    "Finland": _nordic("white", "blue"),
    "Greece": (
        *_rows("blue", "white", "blue", "white", "blue", "white", "blue"),
        Patch("blue", box(-1, -1, -0.2, 0.14)),
        Patch("white", box(-0.68, -1, -0.52, 0.14)),
        Patch("white", box(-1, -0.53, -0.2, -0.31)),
    ),
    "Czechia": (*_rows("white", "red"), Patch("blue", polygon(-1, -1, 0, 0, -1, 1))),
    "Vietnam": (Patch("red", box(-1, -1, 1, 1)), Patch("yellow", star(5, 0.4) * np.array([0.45, 0.65]))),
    "Switzerland": (
        Patch("red", box(-1, -1, 1, 1)),
        Patch("white", box(-0.13, -0.62, 0.13, 0.62)),
        Patch("white", box(-0.42, -0.22, 0.42, 0.22)),
    ),
    "Brazil": (
        Patch("green", box(-1, -1, 1, 1)),
        Patch("yellow", polygon(-0.85, 0, 0, -0.8, 0.85, 0, 0, 0.8)),
        Patch("blue", disc(0, 0, 0.33, 0.48)),
    ),
}  # fmt: skip


def _stroke(left: float, top: float, right: float, bottom: float, colour: str = "white") -> Patch:
    """One bar of a letter or symbol."""
    return Patch(colour, box(left, top, right, bottom))


_TRIANGLE = polygon(0, -0.95, 0.98, 0.8, -0.98, 0.8)
_UPSIDE_DOWN = polygon(-0.98, -0.8, 0.98, -0.8, 0, 0.95)
_SLASH = move(box(-0.12, -0.85, 0.12, 0.85), angle=-45)


def _blue_disc(angle: float) -> tuple[Patch, ...]:
    """A white arrow on a blue disc."""
    return (Patch("blue", disc(0, 0, 1)), Patch("white", move(ARROW, size=0.68, angle=angle)))


SIGNS: dict[str, tuple[Patch, ...]] = {
    "stop": (
        Patch("white", regular(8, 22.5)),
        Patch("red", regular(8, 22.5) * 0.9),
        *(_stroke(x, -0.22, x + 0.24, 0.22) for x in (-0.68, -0.32, 0.06, 0.42)),
    ),
    "no entry": (Patch("red", disc(0, 0, 1)), _stroke(-0.68, -0.18, 0.68, 0.18)),
    "yield": (Patch("red", _UPSIDE_DOWN), Patch("white", _UPSIDE_DOWN * 0.55 + np.array([0, -0.12]))),
    "warning": (
        Patch("red", _TRIANGLE),
        Patch("white", _TRIANGLE * 0.66 + np.array([0, 0.1])),
        _stroke(-0.1, -0.25, 0.1, 0.3, "black"),
        _stroke(-0.1, 0.4, 0.1, 0.58, "black"),
    ),
    "priority road": (Patch("white", regular(4) * 1.05), Patch("yellow", regular(4) * 0.75)),
    "parking": (
        Patch("blue", box(-0.9, -0.9, 0.9, 0.9)),
        _stroke(-0.4, -0.65, -0.14, 0.65),
        _stroke(-0.2, -0.65, 0.4, -0.42),
        _stroke(-0.2, -0.08, 0.4, 0.15),
        _stroke(0.2, -0.5, 0.46, 0.05),
    ),
    "hospital": (
        Patch("blue", box(-0.9, -0.9, 0.9, 0.9)),
        _stroke(-0.5, -0.65, -0.22, 0.65),
        _stroke(0.22, -0.65, 0.5, 0.65),
        _stroke(-0.3, -0.14, 0.3, 0.14),
    ),
    "dead end": (
        Patch("blue", box(-0.9, -0.9, 0.9, 0.9)),
        _stroke(-0.14, -0.4, 0.14, 0.85),
        _stroke(-0.6, -0.7, 0.6, -0.34, "red"),
    ),
    "no parking": (Patch("red", disc(0, 0, 1)), Patch("blue", disc(0, 0, 0.78)), Patch("red", _SLASH)),
    "turn left": _blue_disc(180),
    "turn right": _blue_disc(0),
    "straight ahead": _blue_disc(270),
}
