"""Domain `neon`: things bent from glowing tubes in front of a dark wall."""

import numpy as np

from dpw.benchmarks.mini.canvas import (
    Pixels,
    Pose,
    between,
    blur,
    cloud_noise,
    finish,
    grid,
    line_mask,
    move,
    paint,
    plain,
    tilt,
    vary,
)
from dpw.benchmarks.mini.patterns import PATTERNS
from dpw.benchmarks.mini.shapes import OBJECTS

CLASSES = (
    "star", "heart", "moon", "tree", "fish", "butterfly", "house", "car", "cup", "umbrella", "rocket",
    "crown",
)  # fmt: skip
TEMPLATES = ("a photo of a {}.", "a dark photo of a {}.", "an outline of a {}.")

_GASES = ((255, 70, 90), (80, 200, 255), (120, 255, 130), (255, 180, 60), (225, 110, 255), (250, 240, 225))


def draw(name: str, rng: np.random.Generator) -> Pixels:
    """Hang a neon figure on a wall and switch it on."""
    x, y = grid()
    wall = between(cloud_noise(rng, 5), vary(rng, (45, 32, 38), 10), vary(rng, (22, 20, 30), 8))
    if rng.random() < 0.6:
        wall[PATTERNS["brick"](x * 3.5 + rng.uniform(0, 3), y * 3.5 + rng.uniform(0, 3))] *= 0.6
    pose = Pose(
        centre=(rng.uniform(-0.28, 0.28), rng.uniform(-0.28, 0.28)),
        size=rng.uniform(0.38, 0.75),
        angle=rng.normal(0, 14),
        stretch=(rng.uniform(0.75, 1.15), rng.uniform(0.75, 1.15)),
        slant=rng.normal(0, 0.15),
    )
    view = rng.uniform(-0.25, 0.25, 2)
    tubes, glow = plain((0, 0, 0)).astype(np.float32), rng.permutation(len(_GASES))
    width = rng.uniform(0.05, 0.09)
    for part in OBJECTS[name]:
        gas = vary(rng, _GASES[glow[0] if part.role == "body" else glow[1]], 15)
        wobble = part.points + rng.normal(0, 0.03, part.points.shape)
        paint(tubes, line_mask([move(tilt(wobble, *view), *pose)], width, closed=True), gas)
    lit = (
        wall
        + tubes * np.float32(0.85)
        + blur(tubes, 3) * np.float32(rng.uniform(0.6, 1.0))
        + blur(tubes, 9) * np.float32(rng.uniform(0.6, 1.2))
    )
    return finish(np.clip(lit, 0, 255) * np.float32(rng.uniform(0.75, 1.0)), rng, 6)
