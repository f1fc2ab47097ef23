"""Domain `portraits`: drawn people with skin, hair, nose, ears and clothes, each in one of eight moods."""

import numpy as np

from dpw.benchmarks.mini.canvas import (
    Colour,
    Picture,
    Pixels,
    Pose,
    arc,
    between,
    box,
    cloud_noise,
    disc,
    finish,
    line_mask,
    mask_of,
    mix,
    move,
    paint,
    polygon,
    vary,
)
from dpw.benchmarks.mini.expressions import EXPRESSIONS, features

CLASSES = EXPRESSIONS
TEMPLATES = ("a photo of a {} face.", "a photo of a {} person.", "a drawing of a {} face.")

_SKIN: tuple[Colour, ...] = ((250, 218, 190), (230, 185, 145), (195, 140, 100), (140, 95, 65), (100, 65, 45))
_HAIR: tuple[Colour, ...] = (
    (30, 25, 25),
    (90, 55, 30),
    (160, 110, 50),
    (220, 190, 110),
    (150, 60, 30),
    (170, 170, 170),
)


def draw(name: str, rng: np.random.Generator) -> Pixels:
    """Draw one person."""
    wall = vary(rng, (150, 160, 165), 45)
    picture = between(cloud_noise(rng, 3), wall, mix(wall, (255, 255, 255), 0.35))
    skin, hair = (vary(rng, shades[int(rng.integers(len(shades)))], 10) for shades in (_SKIN, _HAIR))
    pose = Pose(
        centre=(rng.uniform(-0.15, 0.15), rng.uniform(-0.12, 0.12)),
        size=rng.uniform(0.55, 0.75),
        angle=rng.normal(0, 6),
        stretch=(rng.uniform(0.75, 0.95), rng.uniform(0.95, 1.12)),
    )
    _head(picture, skin, hair, pose, rng)
    ink = mix(skin, (20, 10, 10), 0.8) if sum(skin) > 330 else (25.0, 12.0, 10.0)
    roles: dict[str, Colour] = {"ink": ink, "tear": (150, 205, 240), "mouth": (140, 30, 45)}
    width = rng.uniform(0.07, 0.1)
    nose = polygon(0.02, -0.08, rng.choice([-0.1, 0.1]), 0.15, 0.02, 0.16)
    paint(picture, line_mask([move(nose, *pose)], 0.05), mix(skin, (60, 20, 10), 0.4))
    for feature in features(name, rng):
        points = move(feature.points * np.array([1.05, 0.95]), *pose)
        paint(
            picture, mask_of([points]) if feature.filled else line_mask([points], width), roles[feature.role]
        )
    if rng.random() < 0.25:
        for side in (-1, 1):
            rim = move(disc(side * 0.37, -0.24, 0.27, 0.24), *pose)
            paint(picture, line_mask([rim], 0.05, closed=True), (35, 35, 45))
    light = 0.75 + 0.4 * cloud_noise(rng, 2, 2)
    return finish(picture * light[..., None], rng, 5)


def _head(picture: Picture, skin: Colour, hair: Colour, pose: Pose, rng: np.random.Generator) -> None:
    """Paint clothes, long or short hair, ears and the head itself, from back to front."""
    shirt = vary(rng, (110, 110, 130), 55)
    paint(picture, mask_of([disc(0, 1.15, 0.95, 0.5)]), shirt)
    if rng.random() < 0.45:
        paint(picture, mask_of([move(disc(0, 0.05, 1.15, 1.1), *pose)]), hair)
    for points in (box(-0.25, 0.7, 0.25, 1.3), disc(-1, 0, 0.18, 0.25), disc(1, 0, 0.18, 0.25)):
        paint(picture, mask_of([move(points, *pose)]), mix(skin, (60, 20, 10), 0.12))
    paint(picture, mask_of([move(disc(0, 0, 1, 1), *pose)]), skin)
    fringe = np.concatenate(
        [arc(0, -0.1, 1.05, 1.05, 190, 350), arc(rng.uniform(-0.3, 0.3), -0.75, 0.8, 0.2, 0, 180)]
    )
    if rng.random() < 0.85:
        paint(picture, mask_of([move(fringe, *pose)]), hair)
