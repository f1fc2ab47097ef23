"""The lines that make a face happy, sad or asleep, in [-1, 1]² with the face around them."""

from typing import NamedTuple

import numpy as np

from dpw.benchmarks.mini.canvas import Points, arc, disc, polygon

EXPRESSIONS = ("happy", "sad", "angry", "surprised", "sleeping", "winking", "crying", "laughing")


class Feature(NamedTuple):
    """A line or a filled area of a face, with the role its paint plays: ink, white, tear or mouth."""

    role: str
    filled: bool
    points: Points


def _line(points: Points) -> Feature:
    """Draw with ink along a line."""
    return Feature("ink", False, points)


def _eye(side: int, spread: float, height: float = 0.13) -> Feature:
    """Open an eye on one side (-1 left, 1 right)."""
    return Feature("ink", True, disc(side * spread, -0.25, 0.1, height))


def _closed(side: int, spread: float, up: bool) -> Feature:
    """Shut an eye: a little bow, upwards for joy or downwards for sleep."""
    bow = (180, 360) if up else (0, 180)
    return _line(arc(side * spread, -0.22, 0.17, 0.13, *bow))


def _brow(side: int, spread: float, inner: float, outer: float) -> Feature:
    """Draw an eyebrow from its inner to its outer height."""
    return _line(polygon(side * (spread - 0.2), inner, side * (spread + 0.2), outer))


def _smile(width: float, depth: float) -> Feature:
    """Turn the corners of the mouth up."""
    return _line(arc(0, 0.25, width, depth, 15, 165))


def _frown(width: float, depth: float) -> Feature:
    """Turn the corners of the mouth down."""
    return _line(arc(0, 0.68, width, depth, 195, 345))


def _open_mouth(width: float, depth: float) -> Feature:
    """Laugh with an open, half-moon mouth."""
    return Feature("mouth", True, np.concatenate([arc(0, 0.22, width, depth, 0, 180), polygon(-width, 0.22)]))


def features(expression: str, rng: np.random.Generator) -> list[Feature]:
    """Give the lines of one expression, a little different every time."""
    spread = rng.uniform(0.3, 0.42)
    width, depth = rng.uniform(0.36, 0.52), rng.uniform(0.24, 0.38)
    eyes = [_eye(side, spread, rng.uniform(0.1, 0.17)) for side in (-1, 1)]
    wide = [_eye(side, spread, 0.2) for side in (-1, 1)]
    tears = [Feature("tear", True, disc(side * spread, 0.15, 0.09, 0.26)) for side in (-1, 1)]
    raised = [_brow(side, spread, -0.62, -0.55) for side in (-1, 1)]
    winking = int(rng.choice([-1, 1]))
    shut = _line(polygon(-winking * spread - 0.18, -0.25, -winking * spread + 0.18, -0.25))
    table = {
        "happy": [*eyes, _smile(width, depth)],
        "sad": [*eyes, *(_brow(s, spread, -0.58, -0.44) for s in (-1, 1)), _frown(width, depth)],
        "angry": [*eyes, *(_brow(s, spread, -0.36, -0.64) for s in (-1, 1)), _frown(width, depth * 0.8)],
        "surprised": [*wide, *raised, Feature("mouth", True, disc(0, 0.48, width * 0.42, depth * 0.85))],
        "sleeping": [
            *(_closed(s, spread, up=False) for s in (-1, 1)),
            _line(polygon(-width * 0.4, 0.45, width * 0.4, 0.45)),
        ],
        "winking": [_eye(winking, spread), shut, _smile(width, depth)],
        "crying": [*(_closed(s, spread, up=False) for s in (-1, 1)), *tears, _frown(width, depth)],
        "laughing": [*(_closed(s, spread, up=True) for s in (-1, 1)), _open_mouth(width, depth * 1.3)],
    }
    return table[expression]
