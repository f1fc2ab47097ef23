"""Domain `flags`: cloth that waves from a pole in front of the sky, with folds of light and shadow."""

import numpy as np

from dpw.benchmarks.mini.canvas import (
    COLOURS,
    Colour,
    Picture,
    Pixels,
    between,
    cloud_noise,
    finish,
    grid,
    mask_of,
    mix,
    paint,
    plain,
    sample,
    vary,
)
from dpw.benchmarks.mini.emblems import FLAGS

CLASSES = (
    "France", "Italy", "Nigeria", "Germany", "Ukraine", "Poland", "Japan", "Sweden", "Denmark", "Finland",
    "Greece", "Czechia",
)  # fmt: skip
TEMPLATES = ("a photo of the flag of {}.", "a picture of the flag of {}.", "a photo of a flag of {}.")


_SCENERY: tuple[tuple[Colour, Colour], ...] = (
    ((95, 150, 215), (225, 230, 238)),
    ((150, 150, 155), (205, 205, 205)),
    ((50, 75, 45), (120, 140, 90)),
    ((150, 110, 90), (100, 75, 65)),
    ((235, 160, 110), (120, 95, 130)),
    ((25, 30, 55), (60, 65, 95)),
)
# Mirrored, these are still the flags of the same country.
_SYMMETRIC = ("Nigeria", "Germany", "Ukraine", "Poland", "Japan")


def draw(name: str, rng: np.random.Generator) -> Pixels:
    """Hang a flag on a leaning pole and let the wind go through it."""
    picture = between(
        cloud_noise(rng, 3), *(vary(rng, c) for c in _SCENERY[int(rng.integers(len(_SCENERY)))])
    )
    x, y = grid()
    lean = np.radians(rng.normal(0, 12))
    x, y = x * np.cos(lean) - y * np.sin(lean), x * np.sin(lean) + y * np.cos(lean)
    if name in _SYMMETRIC and rng.random() < 0.5:
        x = -x
    width, height = rng.uniform(0.75, 1.5), rng.uniform(0.5, 1.0)
    left, top = rng.uniform(-0.95, 0.8 - width), rng.uniform(-0.95, 0.6 - height)
    paint(picture, (np.abs(x - left) < 0.04) & (y > top - 0.1), vary(rng, (120, 115, 110), 30))
    u = (x - left) / width
    phase, waves, lift = rng.uniform(0, 6.3), rng.uniform(4, 9), rng.uniform(0.05, 0.16)
    swing = lift * np.sin(waves * u + phase) * np.clip(u * 2, 0, 1) + rng.uniform(-0.2, 0.45) * u**2
    v = (y - top - swing) / (height * (1 - rng.uniform(0, 0.3) * u))
    folds = 1 + rng.uniform(0.2, 0.5) * np.cos(waves * u + phase + rng.uniform(-0.5, 0.5))
    flag = sample(_cloth(name, rng), np.clip(u, 0, 1) * 2 - 1, np.clip(v, 0, 1) * 2 - 1) * folds[..., None]
    paint(picture, (u >= 0) & (u <= 1) & (v >= 0) & (v <= 1), flag)
    light = rng.uniform(0.5, 1.1) * rng.uniform(0.85, 1.15, 3)
    return finish(picture * light.astype(np.float32), rng, 8)


def _cloth(name: str, rng: np.random.Generator) -> Picture:
    """Dye the cloth of a flag, a little faded."""
    cloth, fading = plain((255, 255, 255)), rng.uniform(0, 0.4)
    for patch in FLAGS[name]:
        dye = mix(vary(rng, COLOURS[patch.colour], 20), (110, 100, 105), fading)
        paint(cloth, mask_of([patch.points]), dye)
    return cloth
