"""Domain `materials`: patterned surfaces seen at an angle, embossed and lit from one side."""

import numpy as np

from dpw.benchmarks.mini.canvas import Colour, Pixels, between, cloud_noise, finish, grid, paint, vary
from dpw.benchmarks.mini.patterns import PATTERNS

# The word of each class, and the pattern it means.
CLASSES: dict[str, str] = {
    "striped": "striped",
    "checkered": "checked",
    "dotted": "dotted",
    "wavy": "wavy",
    "zigzag": "zigzag",
    "brick": "brick",
    "grid": "grid",
    "ringed": "ringed",
    "scaly": "scaly",
    "honeycomb": "honeycomb",
    "rayed": "rayed",
    "spiral": "spiral",
}
TEMPLATES = ("a photo of a {} texture.", "a photo of a {} pattern.", "a photo of a {} surface.")

_STONES: tuple[tuple[Colour, Colour], ...] = (
    ((150, 120, 90), (95, 70, 50)),
    ((170, 170, 160), (105, 105, 100)),
    ((120, 140, 150), (60, 75, 90)),
    ((190, 150, 110), (140, 90, 60)),
    ((110, 125, 95), (60, 75, 50)),
    ((160, 115, 115), (100, 60, 65)),
)


def draw(name: str, rng: np.random.Generator) -> Pixels:
    """Cut the pattern into a rough material and look at it from the side."""
    x, y = grid()
    turn = rng.uniform(0, 2 * np.pi)
    depth = 1 + rng.uniform(0.25, 0.55) * (x * np.cos(turn) + y * np.sin(turn))
    roll = rng.normal(0, 0.35)
    across = (x * np.cos(roll) - y * np.sin(roll)) / depth
    down = (x * np.sin(roll) + y * np.cos(roll)) / depth
    centred = CLASSES[name] in ("ringed", "rayed", "spiral")
    shift = rng.uniform(-0.4, 0.4, 2) if centred else rng.uniform(0, 7, 2)
    cells = rng.uniform(2.2, 3.8) if centred else rng.uniform(1.6, 3.2)
    warp = (cloud_noise(rng) - 0.5) * 0.25
    mask = PATTERNS[CLASSES[name]]((across + shift[0]) * cells + warp, (down + shift[1]) * cells + warp)
    high, low = _STONES[int(rng.integers(len(_STONES)))]
    rough = cloud_noise(rng, 6)
    surface = between(rough, vary(rng, high, 10), vary(rng, high, 25))
    paint(surface, mask, between(rough, vary(rng, low, 10), vary(rng, low, 25)))
    edge = mask.astype(np.float64) - np.roll(mask, (2, 2), (0, 1))
    light = rng.uniform(0, 2 * np.pi)
    shade = 1 + rng.uniform(0.3, 0.6) * (x * np.cos(light) + y * np.sin(light)) / 1.4
    return finish(
        (surface + edge[..., None] * rng.choice([-35, 35])) * shade[..., None].astype(np.float32), rng, 6
    )
