"""Domain `chalk`: capital letters written by hand, stroke by stroke, with chalk on a board."""

import numpy as np

from dpw.benchmarks.mini.canvas import (
    Picture,
    Pixels,
    Points,
    Pose,
    arc,
    between,
    cloud_noise,
    finish,
    line_mask,
    move,
    polygon,
    smooth_noise,
    vary,
)

_BOWS = np.concatenate(
    [
        polygon(-0.55, -1),
        arc(0, -0.5, 0.5, 0.5, -90, 90),
        polygon(-0.5, 0),
        arc(0.05, 0.5, 0.55, 0.5, -90, 90),
        polygon(-0.55, 1),
    ]
)
STROKES: dict[str, tuple[Points, ...]] = {
    "A": (polygon(-0.7, 1, 0, -1, 0.7, 1), polygon(-0.4, 0.25, 0.4, 0.25)),
    "B": (polygon(-0.55, -1, -0.55, 1), _BOWS),
    "C": (arc(0.15, 0, 0.8, 1, -50, -310),),
    "E": (polygon(0.6, -1, -0.55, -1, -0.55, 1, 0.6, 1), polygon(-0.55, 0, 0.4, 0)),
    "F": (polygon(0.6, -1, -0.5, -1, -0.5, 1), polygon(-0.5, 0, 0.4, 0)),
    "H": (polygon(-0.6, -1, -0.6, 1), polygon(0.6, -1, 0.6, 1), polygon(-0.6, 0, 0.6, 0)),
    "K": (polygon(-0.55, -1, -0.55, 1), polygon(0.6, -1, -0.5, 0.1, 0.65, 1)),
    "L": (polygon(-0.5, -1, -0.5, 1, 0.6, 1),),
    "M": (polygon(-0.75, 1, -0.6, -1, 0, 0.4, 0.6, -1, 0.75, 1),),
    "S": (np.concatenate([arc(0, -0.5, 0.55, 0.5, -30, -270), arc(0, 0.5, 0.55, 0.5, -90, 150)]),),
    "T": (polygon(-0.75, -1, 0.75, -1), polygon(0, -1, 0, 1)),
    "X": (polygon(-0.6, -1, 0.6, 1), polygon(0.6, -1, -0.6, 1)),
}  # fmt: skip
CLASSES = tuple(STROKES)
TEMPLATES = ("a photo of the letter {}.", "a drawing of the letter {}.", "the letter {}.")


def draw(name: str, rng: np.random.Generator) -> Pixels:
    """Write one letter on a board that was not wiped well."""
    board = vary(rng, (45, 75, 60) if rng.random() < 0.6 else (55, 55, 60), 10)
    picture = between(cloud_noise(rng, 3), board, vary(rng, (85, 105, 95), 10))
    _smear(picture, rng)
    chalk = (
        np.array(vary(rng, (230, 228, 215), 12))
        if rng.random() < 0.7
        else np.array(vary(rng, (225, 190, 150), 30))
    )
    pose = Pose(
        centre=(rng.uniform(-0.22, 0.22), rng.uniform(-0.18, 0.18)),
        size=rng.uniform(0.45, 0.72),
        angle=rng.normal(0, 10),
        stretch=(rng.uniform(0.7, 1.15), rng.uniform(0.85, 1.1)),
        slant=rng.normal(-0.1, 0.15),
    )
    strokes = [move(_shaky(stroke, rng), *pose) for stroke in STROKES[name]]
    mask = line_mask(strokes, rng.uniform(0.08, 0.2))
    pressure = np.clip(smooth_noise(rng, 48) * 1.4 + rng.uniform(-0.1, 0.3), 0, 1) * mask
    picture = picture * (1 - pressure[..., None]) + chalk * pressure[..., None]
    return finish(picture, rng, 5)


def _shaky(stroke: Points, rng: np.random.Generator) -> Points:
    """Let the hand tremble: move the corners and bend the lines between them."""
    corners = stroke + rng.normal(0, 0.07, stroke.shape)
    steps = np.linspace(0, len(corners) - 1, 6 * len(corners))
    path = np.stack([np.interp(steps, np.arange(len(corners)), corners[:, axis]) for axis in (0, 1)], axis=1)
    bend = np.sin(steps * rng.uniform(0.8, 1.6) + rng.uniform(0, 6.3))
    return path + bend[:, None] * rng.normal(0, 0.07, 2)


def _smear(picture: Picture, rng: np.random.Generator) -> None:
    """Leave traces of an earlier line."""
    for _ in range(int(rng.integers(0, 3))):
        old = line_mask([rng.uniform(-1, 1, (3, 2))], rng.uniform(0.1, 0.4))
        picture[old] = picture[old] * 0.85 + 30
