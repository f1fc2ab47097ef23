"""Domain `aerial`: land as a satellite sees it, grown from noise and never the same twice."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dpw.benchmarks.mini.canvas import (
    Colour,
    Picture,
    Pixels,
    between,
    box,
    cloud_noise,
    finish,
    grid,
    mask_of,
    move,
    paint,
    smooth_noise,
    vary,
)

CLASSES = ("forest", "river", "lake", "highway", "farmland", "town", "beach", "desert", "island", "snow")
TEMPLATES = ("an aerial photo of {}.", "an aerial view of {}.", "{} seen from above.")

Field = npt.NDArray[np.float64]
Shades = tuple[tuple[Colour, Colour], ...]
_SOIL: Shades = (
    ((95, 110, 60), (140, 140, 90)),
    ((120, 105, 75), (160, 145, 110)),
    ((80, 105, 65), (115, 130, 85)),
)
_DEEP: Shades = (
    ((15, 45, 70), (30, 75, 95)),
    ((25, 60, 60), (55, 95, 90)),
    ((10, 30, 60), (35, 85, 125)),
)


def draw(name: str, rng: np.random.Generator) -> Pixels:
    """Photograph a piece of land from orbit, through some haze, in the light of some season."""
    picture = _PAINTERS[name](rng)
    haze = rng.uniform(0, 0.35)
    picture = picture * (1 - haze) + np.array([190, 200, 215], dtype=np.float32) * haze
    season = rng.uniform(0.5, 1.4) * rng.uniform(0.7, 1.3, 3)
    return finish(picture * season.astype(np.float32), rng, 8)


def _turned(rng: np.random.Generator) -> tuple[Field, Field]:
    """Give the coordinates of the ground, turned by any angle."""
    x, y = grid()
    turn = rng.uniform(0, 2 * np.pi)
    return x * np.cos(turn) - y * np.sin(turn), x * np.sin(turn) + y * np.cos(turn)


def _pair(rng: np.random.Generator, pairs: Shades) -> tuple[Colour, Colour]:
    """Choose a pair of colours and vary it."""
    first, second = pairs[int(rng.integers(len(pairs)))]
    return vary(rng, first, 10), vary(rng, second, 10)


def _soil(rng: np.random.Generator) -> Picture:
    """Rough green and brown land."""
    return between(cloud_noise(rng, 4), *_pair(rng, _SOIL))


def _water(rng: np.random.Generator) -> Picture:
    """Dark, nearly even water."""
    return between(cloud_noise(rng, 3), *_pair(rng, _DEEP))


def _far(rng: np.random.Generator) -> Field:
    """Distance from a point near the middle, disturbed so that its level lines are coasts."""
    x, y = _turned(rng)
    a, b = rng.uniform(-0.25, 0.25, 2)
    return np.asarray(np.hypot((x - a) * rng.uniform(0.8, 1.4), y - b) + (cloud_noise(rng, 4) - 0.5) * 0.5)


def _course(rng: np.random.Generator, bend: float) -> Field:
    """Distance from a line that winds across the land."""
    x, y = _turned(rng)
    return np.abs(
        y - bend * np.sin(rng.uniform(1.5, 3.5) * x + rng.uniform(0, 6.3)) - rng.uniform(-0.35, 0.35)
    )


def _forest(rng: np.random.Generator) -> Picture:
    """Crowns beside crowns."""
    crowns = np.abs(smooth_noise(rng, 26) - 0.5) * 2
    return between(
        np.clip(crowns + 0.3 * cloud_noise(rng), 0, 1),
        vary(rng, (60, 95, 45), 12),
        vary(rng, (15, 35, 18), 6),
    )


def _river(rng: np.random.Generator) -> Picture:
    """Water that winds, with banks of mud."""
    picture, course = _soil(rng), _course(rng, rng.uniform(0.2, 0.45)) + (cloud_noise(rng, 5) - 0.5) * 0.1
    width = rng.uniform(0.1, 0.22)
    paint(picture, course < width + 0.05, vary(rng, (150, 135, 105), 12))
    paint(picture, course < width, _water(rng))
    return picture


def _lake(rng: np.random.Generator) -> Picture:
    """Water inside land."""
    picture = _soil(rng)
    paint(picture, _far(rng) < rng.uniform(0.42, 0.68), _water(rng))
    return picture


def _highway(rng: np.random.Generator) -> Picture:
    """Thin grey lanes across the land."""
    picture = _soil(rng)
    for _ in range(int(rng.integers(1, 3))):
        course = _course(rng, rng.uniform(0, 0.12))
        paint(picture, course < 0.12, vary(rng, (150, 150, 145), 12))
        paint(picture, course < 0.02, vary(rng, (215, 210, 190), 12))
    return picture


def _farmland(rng: np.random.Generator) -> Picture:
    """Parcels of different crops."""
    x, y = _turned(rng)
    columns = np.floor(x * rng.uniform(1.5, 3) + rng.uniform(0, 1))
    rows = np.floor(y * rng.uniform(1.5, 3) + rng.uniform(0, 1) + 0.5 * (columns % 2))
    crop = (columns * 7.13 + rows * 3.71 + rng.uniform(0, 10)) * 0.618
    hue = crop - np.floor(crop)
    picture = between(hue, vary(rng, (75, 100, 45), 12), vary(rng, (185, 165, 105), 12))
    furrow = 1 + 0.1 * np.sin((x if rng.random() < 0.5 else y) * rng.uniform(40, 70))
    return picture * (furrow * (0.85 + 0.3 * cloud_noise(rng, 8)))[..., None]


def _town(rng: np.random.Generator) -> Picture:
    """Roofs along streets, with trees between them."""
    picture = between(cloud_noise(rng, 10), vary(rng, (85, 100, 70), 10), vary(rng, (150, 145, 135), 10))
    angle, step = rng.uniform(0, 90), rng.uniform(0.24, 0.36)
    roofs: tuple[Colour, ...] = ((150, 80, 60), (120, 115, 115), (175, 170, 165), (110, 70, 60))
    for column in np.arange(-1.5, 1.5, step):
        for row in np.arange(-1.5, 1.5, step * 0.8):
            if rng.random() < 0.2:
                continue
            width, height = rng.uniform(0.4, 0.75, 2) * step / 2
            house = move(box(-width, -height, width, height), (column, row))
            shadow = move(house + 0.03, angle=angle)
            paint(picture, mask_of([shadow]), (40, 42, 45))
            paint(
                picture,
                mask_of([move(house, angle=angle)]),
                vary(rng, roofs[int(rng.integers(len(roofs)))], 14),
            )
    return picture


def _beach(rng: np.random.Generator) -> Picture:
    """Water, surf, sand and the land behind, side by side."""
    _, y = _turned(rng)
    height = y + (cloud_noise(rng, 3) - 0.5) * 0.5 + rng.uniform(-0.2, 0.2)
    picture = _water(rng)
    sand = rng.uniform(0.25, 0.6)
    paint(picture, height > -0.07, (225, 230, 230))
    paint(
        picture,
        height > 0,
        between(cloud_noise(rng, 8), vary(rng, (215, 195, 155), 10), vary(rng, (190, 165, 120), 10)),
    )
    paint(picture, height > sand, _soil(rng))
    return picture


def _desert(rng: np.random.Generator) -> Picture:
    """Ridges of sand, one like the other, with shadows."""
    x, y = _turned(rng)
    ridge = np.sin(y * rng.uniform(9, 18) + (cloud_noise(rng, 3) - 0.5) * 7 + x)
    return between(ridge * 0.5 + 0.5, vary(rng, (170, 125, 80), 10), vary(rng, (220, 180, 130), 10))


def _island(rng: np.random.Generator) -> Picture:
    """Land inside water."""
    picture, far = _water(rng), _far(rng)
    radius = rng.uniform(0.42, 0.68)
    paint(picture, far < radius + 0.06, vary(rng, (75, 150, 155), 12))
    paint(picture, far < radius, vary(rng, (205, 190, 150), 12))
    paint(picture, far < radius - 0.08, _soil(rng))
    return picture


def _snow(rng: np.random.Generator) -> Picture:
    """Ridges of mountains under snow, blue in the shadow, with bare rock."""
    height = cloud_noise(rng, 4, 5)
    slope = np.clip((height - np.roll(height, (2, 2), (0, 1))) * 9 + 0.5, 0, 1)
    picture = between(slope, (120, 140, 175), (248, 250, 255))
    paint(picture, height < rng.uniform(0.08, 0.28), vary(rng, (95, 90, 90), 12))
    return picture


_PAINTERS: dict[str, Callable[[np.random.Generator], Picture]] = {
    "forest": _forest,
    "river": _river,
    "lake": _lake,
    "highway": _highway,
    "farmland": _farmland,
    "town": _town,
    "beach": _beach,
    "desert": _desert,
    "island": _island,
    "snow": _snow,
}
