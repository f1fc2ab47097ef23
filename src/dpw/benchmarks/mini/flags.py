"""Domain `flags`: cloth that waves from a pole in front of the sky, with folds of light and shadow."""

import numpy as np

from dpw.benchmarks.mini.canvas import (
    COLOURS,
    Pixels,
    between,
    box,
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


def draw(name: str, rng: np.random.Generator) -> Pixels:
    """Hang a flag on a pole and let the wind go through it."""
    picture = between(cloud_noise(rng, 2), vary(rng, (95, 150, 215)), vary(rng, (225, 230, 238)))
    left, top = rng.uniform(-0.95, -0.6), rng.uniform(-0.9, -0.35)
    width, height = rng.uniform(1.05, 1.55), rng.uniform(0.65, 1.05)
    paint(picture, mask_of([box(left - 0.07, -1, left, 1)]), vary(rng, (120, 115, 110), 20))
    x, y = grid()
    u = (x - left) / width
    phase, waves, lift = rng.uniform(0, 6.3), rng.uniform(4, 8), rng.uniform(0.05, 0.14)
    swing = lift * np.sin(waves * u + phase) * np.clip(u * 2, 0, 1) + rng.uniform(-0.1, 0.45) * u**2
    v = (y - top - swing) / (height * (1 - rng.uniform(0, 0.25) * u))
    cloth = plain((255, 255, 255))
    dusk = rng.uniform(0, 0.35)
    for patch in FLAGS[name]:
        paint(cloth, mask_of([patch.points]), mix(vary(rng, COLOURS[patch.colour], 16), (90, 80, 100), dusk))
    folds = 1 + rng.uniform(0.2, 0.45) * np.cos(waves * u + phase + rng.uniform(-0.5, 0.5))
    inside = (u >= 0) & (u <= 1) & (v >= 0) & (v <= 1)
    flag = sample(cloth, np.clip(u, 0, 1) * 2 - 1, np.clip(v, 0, 1) * 2 - 1) * folds[..., None]
    paint(picture, inside, flag)
    if rng.random() < 0.5:
        picture = (
            picture[:, ::-1] if name in ("Nigeria", "Germany", "Ukraine", "Poland", "Japan") else picture
        )
    return finish(picture * np.float32(rng.uniform(0.7, 1.05)), rng, 7)
