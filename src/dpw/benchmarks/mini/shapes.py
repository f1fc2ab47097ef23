"""Outlines of everyday things as polygons in [-1, 1]², each with the role its paint plays."""

from typing import NamedTuple

import numpy as np

from dpw.benchmarks.mini.canvas import Points, arc, box, disc, move, polygon


class Part(NamedTuple):
    """One polygon: `body` takes the object's colour, `dark` and `light` are its details."""

    role: str
    points: Points


def regular(corners: int, angle: float = -90.0) -> Points:
    """Give a regular polygon with a corner at the given angle."""
    turn = np.radians(angle + np.arange(corners) * 360 / corners)
    return np.stack([np.cos(turn), np.sin(turn)], axis=1)


def star(points: int, inner: float) -> Points:
    """Give a star whose inner corners lie at a fraction of the outer ones."""
    radius = np.where(np.arange(points * 2) % 2 == 0, 1.0, inner)
    return regular(points * 2) * radius[:, None]


def _heart() -> Points:
    """Give a heart."""
    t = np.linspace(0, 2 * np.pi, 28, endpoint=False)
    x = 16 * np.sin(t) ** 3
    y = -(13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t))
    return np.stack([x / 17, y / 17], axis=1)


def _band(outer: Points, inner: Points) -> Points:
    """Join two open lines into one closed band."""
    return np.concatenate([outer, inner[::-1]])


ARROW = polygon(-1, -0.3, 0.1, -0.3, 0.1, -0.8, 1, 0, 0.1, 0.8, 0.1, 0.3, -1, 0.3)


def _body(*shapes: Points) -> tuple[Part, ...]:
    """Give an object that is all body."""
    return tuple(Part("body", points) for points in shapes)


def _geometry() -> dict[str, tuple[Part, ...]]:
    """Plain shapes."""
    ring = _band(arc(0, 0, 1, 1, 0, 360), arc(0, 0, 0.6, 0.6, 0, 360))
    moon = _band(arc(0, 0, 1, 1, 50, 310), arc(0.45, 0, 0.8, 0.8, 75, 285))
    plus = polygon(
        -0.3, -1, 0.3, -1, 0.3, -0.3, 1, -0.3, 1, 0.3, 0.3, 0.3, 0.3, 1, -0.3, 1, -0.3, 0.3, -1, 0.3
    )
    plus = np.concatenate([plus, polygon(-1, -0.3, -0.3, -0.3)])
    return {
        "circle": _body(disc(0, 0, 0.95)),
        "square": _body(box(-0.85, -0.85, 0.85, 0.85)),
        "triangle": _body(polygon(0, -0.9, 0.95, 0.8, -0.95, 0.8)),
        "diamond": _body(polygon(0, -1, 0.75, 0, 0, 1, -0.75, 0)),
        "hexagon": _body(regular(6, 0)),
        "star": _body(star(5, 0.42)),
        "heart": _body(_heart()),
        "cross": _body(plus),
        "ring": _body(ring),
        "moon": _body(moon),
    }


def _plants() -> dict[str, tuple[Part, ...]]:
    """What grows."""
    petals = tuple(
        disc(0.6 * np.cos(a), 0.6 * np.sin(a), 0.36) for a in np.linspace(0, 2 * np.pi, 6, endpoint=False)
    )
    return {
        "tree": (
            Part("dark", box(-0.15, 0.2, 0.15, 1)),
            *_body(disc(0, -0.3, 0.7, 0.65)),
        ),
        "pine": (
            Part("dark", box(-0.12, 0.6, 0.12, 1)),
            *_body(
                polygon(0, -1, 0.5, -0.3, -0.5, -0.3),
                polygon(0, -0.6, 0.65, 0.2, -0.65, 0.2),
                polygon(0, -0.2, 0.8, 0.7, -0.8, 0.7),
            ),
        ),
        "flower": (*_body(*petals), Part("light", disc(0, 0, 0.32))),
        "leaf": (
            *_body(polygon(0, -1, 0.45, -0.5, 0.6, 0, 0.35, 0.5, 0, 0.8, -0.35, 0.5, -0.6, 0, -0.45, -0.5)),
            Part("dark", box(-0.05, -0.6, 0.05, 1)),
        ),
        "mushroom": (
            Part("light", box(-0.25, 0, 0.25, 0.9)),
            *_body(_band(arc(0, 0.1, 0.95, 0.95, 180, 360), polygon(-0.95, 0.1, 0.95, 0.1))),
            Part("light", disc(-0.4, -0.3, 0.15)),
            Part("light", disc(0.3, -0.4, 0.17)),
        ),
        "apple": (
            *_body(disc(-0.3, 0.2, 0.6, 0.7), disc(0.3, 0.2, 0.6, 0.7)),
            Part("dark", polygon(-0.05, -0.4, 0.1, -0.95, 0.22, -0.9, 0.08, -0.4)),
        ),
    }


def _animals_and_weather() -> dict[str, tuple[Part, ...]]:
    """What moves by itself."""
    return {
        "fish": (
            *_body(disc(-0.15, 0, 0.75, 0.5), polygon(0.4, 0, 1, -0.5, 1, 0.5)),
            Part("light", disc(-0.55, -0.12, 0.13)),
        ),
        "bird": (
            *_body(disc(0, 0.15, 0.6, 0.4), disc(-0.55, -0.3, 0.3), polygon(0.4, 0.1, 1, -0.3, 0.9, 0.3)),
            Part("dark", polygon(-0.8, -0.4, -1.05, -0.22, -0.8, -0.15)),
            Part("dark", box(-0.1, 0.5, 0, 0.95)),
            Part("dark", box(0.15, 0.5, 0.25, 0.95)),
        ),
        "butterfly": (
            *_body(
                disc(-0.5, -0.4, 0.48, 0.5),
                disc(0.5, -0.4, 0.48, 0.5),
                disc(-0.4, 0.45, 0.35),
                disc(0.4, 0.45, 0.35),
            ),
            Part("dark", disc(0, 0, 0.1, 0.75)),
        ),
        "cat": (
            *_body(
                disc(0, 0.2, 0.8, 0.7),
                polygon(-0.75, 0, -0.7, -0.95, -0.15, -0.4),
                polygon(0.75, 0, 0.7, -0.95, 0.15, -0.4),
            ),
            Part("dark", disc(-0.3, 0.1, 0.12)),
            Part("dark", disc(0.3, 0.1, 0.12)),
            Part("light", polygon(-0.12, 0.35, 0.12, 0.35, 0, 0.52)),
        ),
        "cloud": _body(disc(-0.45, 0.15, 0.5, 0.4), disc(0.1, -0.15, 0.5), disc(0.55, 0.2, 0.42, 0.35)),
        "sun": _body(star(12, 0.62), disc(0, 0, 0.66)),
        "lightning": _body(
            polygon(0.2, -1, -0.6, 0.15, -0.1, 0.15, -0.3, 1, 0.6, -0.25, 0.1, -0.25, 0.5, -1)
        ),
        "drop": _body(np.concatenate([arc(0, 0.35, 0.6, 0.6, -20, 200), polygon(0, -1)])),
    }


def _large_things() -> dict[str, tuple[Part, ...]]:
    """Houses, vehicles and other things people make."""
    return {
        "house": (
            *_body(box(-0.7, -0.1, 0.7, 0.9)),
            Part("dark", polygon(-0.95, -0.1, 0, -0.95, 0.95, -0.1)),
            Part("light", box(-0.2, 0.3, 0.2, 0.9)),
        ),
        "car": (
            *_body(box(-1, -0.05, 1, 0.45), polygon(-0.6, -0.05, -0.35, -0.55, 0.35, -0.55, 0.65, -0.05)),
            Part("dark", disc(-0.55, 0.45, 0.25)),
            Part("dark", disc(0.55, 0.45, 0.25)),
            Part("light", box(-0.3, -0.42, 0.28, -0.1)),
        ),
        "boat": (
            *_body(polygon(-1, 0.35, 1, 0.35, 0.65, 0.85, -0.65, 0.85)),
            Part("dark", box(-0.05, -0.95, 0.05, 0.35)),
            Part("light", polygon(0.1, -0.9, 0.8, 0.2, 0.1, 0.2)),
        ),
        "cup": (
            *_body(polygon(-0.75, -0.6, 0.45, -0.6, 0.3, 0.75, -0.6, 0.75)),
            *_body(_band(arc(0.45, 0, 0.5, 0.4, -90, 90), arc(0.45, 0, 0.28, 0.2, -90, 90))),
        ),
        "key": _body(
            _band(arc(-0.55, 0, 0.42, 0.42, 0, 360), arc(-0.55, 0, 0.2, 0.2, 0, 360)),
            box(-0.2, -0.1, 1, 0.1),
            box(0.75, 0.1, 0.95, 0.42),
            box(0.42, 0.1, 0.6, 0.35),
        ),
        "umbrella": (
            *_body(_band(arc(0, 0, 1, 0.9, 180, 360), polygon(-1, 0, -0.5, -0.15, 0, 0, 0.5, -0.15, 1, 0))),
            Part("dark", box(-0.05, -0.05, 0.05, 0.9)),
            Part("dark", box(-0.3, 0.8, 0.05, 0.92)),
        ),
        "rocket": (
            *_body(polygon(0, -1, 0.32, -0.5, 0.32, 0.6, -0.32, 0.6, -0.32, -0.5)),
            Part("dark", polygon(-0.32, 0.1, -0.75, 0.75, -0.32, 0.6)),
            Part("dark", polygon(0.32, 0.1, 0.75, 0.75, 0.32, 0.6)),
            Part("light", disc(0, -0.3, 0.16)),
            Part("light", polygon(-0.2, 0.6, 0.2, 0.6, 0, 1)),
        ),
    }


def _small_things() -> dict[str, tuple[Part, ...]]:
    """Things people hold in a hand."""
    return {
        "balloon": (
            *_body(disc(0, -0.3, 0.6, 0.68)),
            Part("dark", polygon(0, 0.35, 0.12, 0.5, -0.12, 0.5)),
            Part("dark", box(-0.03, 0.5, 0.03, 1)),
        ),
        "bell": (
            *_body(polygon(-0.85, 0.6, -0.5, 0.3, -0.45, -0.4, 0, -0.85, 0.45, -0.4, 0.5, 0.3, 0.85, 0.6)),
            Part("dark", disc(0, 0.75, 0.2)),
        ),
        "bottle": _body(
            polygon(-0.15, -1, 0.15, -1, 0.15, -0.5, 0.42, -0.2, 0.42, 1, -0.42, 1, -0.42, -0.2, -0.15, -0.5)
        ),
        "book": (
            *_body(
                polygon(0, -0.5, 0.95, -0.65, 0.95, 0.55, 0, 0.7),
                polygon(0, -0.5, -0.95, -0.65, -0.95, 0.55, 0, 0.7),
            ),
            Part("dark", box(-0.05, -0.5, 0.05, 0.7)),
        ),
        "crown": _body(
            polygon(-0.9, 0.65, -0.95, -0.5, -0.45, 0.05, 0, -0.75, 0.45, 0.05, 0.95, -0.5, 0.9, 0.65)
        ),
        "hat": (
            *_body(box(-0.5, -0.7, 0.5, 0.35), box(-1, 0.35, 1, 0.6)),
            Part("light", box(-0.5, 0.1, 0.5, 0.3)),
        ),
        "hourglass": _body(polygon(-0.65, -0.9, 0.65, -0.9, 0.05, 0, 0.65, 0.9, -0.65, 0.9, -0.05, 0)),
        "ladder": _body(
            box(-0.5, -1, -0.33, 1),
            box(0.33, -1, 0.5, 1),
            *(box(-0.4, y, 0.4, y + 0.15) for y in (-0.75, -0.3, 0.15, 0.6)),
        ),
        "candle": (
            *_body(box(-0.28, -0.25, 0.28, 1)),
            Part("light", polygon(0, -1, 0.2, -0.55, 0, -0.3, -0.2, -0.55)),
        ),
    }


# The order matters: the pretraining numbers its concepts by it.
OBJECTS: dict[str, tuple[Part, ...]] = {
    **_geometry(),
    **_plants(),
    **_animals_and_weather(),
    **_large_things(),
    **_small_things(),
}

ARROWS: dict[str, Points] = {
    "right": ARROW,
    "down": move(ARROW, angle=90),
    "left": move(ARROW, angle=180),
    "up": move(ARROW, angle=270),
}
