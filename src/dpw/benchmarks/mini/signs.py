"""Domain `signs`: road signs on posts, tilted, weathered, in front of hedges, walls and sky."""

import numpy as np

from dpw.benchmarks.mini.canvas import (
    COLOURS,
    Colour,
    Pixels,
    between,
    blur,
    box,
    cloud_noise,
    disc,
    finish,
    grid,
    mask_of,
    mix,
    move,
    paint,
    tilt,
    vary,
)
from dpw.benchmarks.mini.emblems import SIGNS

CLASSES = tuple(SIGNS)
TEMPLATES = ("a photo of a {} sign.", "a photo of a {} road sign.", "a photo of a {} traffic sign.")

_PLACES: tuple[tuple[Colour, Colour], ...] = (
    ((45, 80, 40), (120, 150, 80)),
    ((150, 140, 130), (95, 85, 80)),
    ((190, 205, 225), (130, 160, 200)),
    ((165, 120, 95), (110, 70, 55)),
)


def draw(name: str, rng: np.random.Generator) -> Pixels:
    """Put a sign on a post at the side of a road."""
    high, low = _PLACES[int(rng.integers(len(_PLACES)))]
    picture = between(cloud_noise(rng, 4), vary(rng, high), vary(rng, low))
    _, y = grid()
    paint(picture, y > rng.uniform(0.55, 1.1), vary(rng, (100, 100, 105), 12))
    picture = blur(picture, rng.uniform(0.5, 2))
    size = rng.uniform(0.4, 0.68)
    centre = (rng.uniform(-0.25, 0.25), rng.uniform(-0.4, -0.05))
    paint(
        picture,
        mask_of([box(centre[0] - 0.05, centre[1], centre[0] + 0.05, 1)]),
        vary(rng, (140, 140, 140), 20),
    )
    view = {"sideways": rng.uniform(-0.35, 0.35), "forwards": rng.uniform(-0.25, 0.25)}
    stretch, angle = (rng.uniform(0.72, 1.0), 1.0), rng.normal(0, 7)
    fading, dirt = rng.uniform(0.05, 0.4), vary(rng, (120, 115, 105), 15)
    for patch in SIGNS[name]:
        shade = mix(vary(rng, COLOURS[patch.colour], 14), dirt, fading)
        paint(picture, mask_of([move(tilt(patch.points, **view), centre, size, angle, stretch)]), shade)
    for _ in range(int(rng.integers(0, 3))):
        spot = disc(
            rng.uniform(-0.6, 0.3), rng.uniform(-0.6, 0.3), rng.uniform(0.08, 0.3), rng.uniform(0.05, 0.2)
        )
        paint(picture, mask_of([spot]), vary(rng, mix(high, low, 0.5), 10))
    light = 0.55 + 0.6 * cloud_noise(rng, 2, 2)
    return finish(picture * light[..., None], rng, 8)
