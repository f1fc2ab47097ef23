"""Painting small pictures: polygons, textures and noise on a canvas, the same bytes for the same seed."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter

SIDE = 48
OVERSAMPLING = 2

Points = npt.NDArray[np.float64]
Picture = npt.NDArray[Any]
Noise = npt.NDArray[np.float32]
Pixels = npt.NDArray[np.uint8]
Colour = tuple[float, float, float]

COLOURS: dict[str, Colour] = {
    "red": (215, 35, 35),
    "orange": (245, 140, 25),
    "yellow": (245, 220, 50),
    "green": (40, 160, 60),
    "blue": (35, 75, 200),
    "purple": (135, 50, 175),
    "pink": (245, 140, 185),
    "brown": (125, 75, 35),
    "black": (25, 25, 25),
    "white": (245, 245, 245),
    "grey": (135, 135, 135),
    "turquoise": (45, 195, 195),
}


def disc(x: float, y: float, radius: float, height: float | None = None, corners: int = 20) -> Points:
    """Give an ellipse as a polygon."""
    angle = np.linspace(0, 2 * np.pi, corners, endpoint=False)
    return np.stack([x + radius * np.cos(angle), y + (height or radius) * np.sin(angle)], axis=1)


def box(left: float, top: float, right: float, bottom: float) -> Points:
    """Give an upright rectangle as a polygon."""
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]], dtype=np.float64)


def polygon(*coordinates: float) -> Points:
    """Give a polygon from x, y, x, y, ..."""
    return np.array(coordinates, dtype=np.float64).reshape(-1, 2)


def arc(x: float, y: float, radius: float, height: float, start: float, stop: float) -> Points:
    """Give an open line along an ellipse between two angles in degrees, clockwise from the right."""
    angle = np.radians(np.linspace(start, stop, 12))
    return np.stack([x + radius * np.cos(angle), y + height * np.sin(angle)], axis=1)


class Pose(NamedTuple):
    """Where and how a shape lies on the canvas: the arguments of `move`, in its order."""

    centre: tuple[float, float]
    size: float
    angle: float = 0.0
    stretch: tuple[float, float] = (1.0, 1.0)
    slant: float = 0.0


def move(
    points: Points,
    centre: tuple[float, float] = (0.0, 0.0),
    size: float = 1.0,
    angle: float = 0.0,
    stretch: tuple[float, float] = (1.0, 1.0),
    slant: float = 0.0,
) -> Points:
    """Stretch, slant, turn (degrees), scale and shift a shape that lives in [-1, 1]²."""
    x, y = points[:, 0] * stretch[0], points[:, 1] * stretch[1]
    x = x + slant * y
    turn = np.radians(angle)
    turned = np.stack([x * np.cos(turn) - y * np.sin(turn), x * np.sin(turn) + y * np.cos(turn)], axis=1)
    placed: Points = turned * size + np.array(centre)
    return placed


def plain(colour: Colour) -> Picture:
    """Start a large canvas of one colour."""
    side = SIDE * OVERSAMPLING
    return np.broadcast_to(np.array(colour, dtype=np.float64), (side, side, 3)).copy()


def _pixels(points: Points) -> list[tuple[float, float]]:
    """Carry points of [-1, 1]² to the large canvas."""
    scaled = (points + 1) * (SIDE * OVERSAMPLING / 2)
    return [(x, y) for x, y in scaled.tolist()]


def mask_of(polygons: Sequence[Points]) -> npt.NDArray[np.bool_]:
    """Mark the canvas where any of the polygons lies."""
    image = Image.new("L", (SIDE * OVERSAMPLING, SIDE * OVERSAMPLING))
    draw = ImageDraw.Draw(image)
    for points in polygons:
        draw.polygon(_pixels(points), fill=1)
    return np.asarray(np.asarray(image) > 0)


def line_mask(lines: Sequence[Points], width: float, closed: bool = False) -> npt.NDArray[np.bool_]:
    """Mark the canvas along lines of a width given in [-1, 1] units, with round joints."""
    image = Image.new("L", (SIDE * OVERSAMPLING, SIDE * OVERSAMPLING))
    draw = ImageDraw.Draw(image)
    thickness = max(1, round(width * SIDE * OVERSAMPLING / 2))
    for points in lines:
        pixels = _pixels(points)
        draw.line(pixels + pixels[:1] if closed else pixels, fill=1, width=thickness, joint="curve")
        if thickness > 2:
            half = thickness / 2 - 0.5
            for x, y in (pixels[0], pixels[-1]):
                draw.ellipse((x - half, y - half, x + half, y + half), fill=1)
    return np.asarray(np.asarray(image) > 0)


def paint(picture: Picture, mask: npt.NDArray[np.bool_], fill: Colour | Picture) -> None:
    """Put a colour or another picture where the mask is set."""
    picture[mask] = fill[mask] if isinstance(fill, np.ndarray) else fill


def finish(picture: Picture, rng: np.random.Generator | None = None, grain: float = 0.0) -> Pixels:
    """Shrink the large canvas to the final uint8 picture by averaging, with a camera's grain if asked for."""
    small = picture[::2, ::2] + picture[1::2, ::2]
    small += picture[::2, 1::2]
    small += picture[1::2, 1::2]
    small /= OVERSAMPLING**2
    if rng is not None:
        small = small + grain * rng.standard_normal(small.shape, dtype=np.float32)
    pixels: Pixels = np.clip(np.round(small), 0, 255).astype(np.uint8)
    return pixels


def grid() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Give x and y in [-1, 1] of every pixel of the large canvas."""
    side = SIDE * OVERSAMPLING
    axis = (np.arange(side) + 0.5) / side * 2 - 1
    x, y = np.meshgrid(axis, axis)
    return x, y


def smooth_noise(rng: np.random.Generator, cells: int) -> npt.NDArray[np.float64]:
    """Give noise in [0, 1] that varies over `cells` cells a side."""
    coarse = rng.random((cells, cells)).astype(np.float32)
    side = SIDE * OVERSAMPLING
    image = Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC)
    return np.clip(np.asarray(image, dtype=np.float64), 0, 1)


def cloud_noise(rng: np.random.Generator, cells: int = 3, octaves: int = 4) -> Noise:
    """Give fractal noise in [0, 1]: a sum of ever finer noise, as fine as the final picture."""
    total = np.zeros((SIDE, SIDE), dtype=np.float32)
    for octave in range(octaves):
        coarse = rng.random((cells * 2**octave, cells * 2**octave), dtype=np.float32)
        fine = Image.fromarray(coarse).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        total += np.asarray(fine) / np.float32(2**octave)
    low, high = total.min(), total.max()
    scaled: Noise = (total - low) / (high - low)
    return scaled.repeat(OVERSAMPLING, axis=0).repeat(OVERSAMPLING, axis=1)


def vary(rng: np.random.Generator, colour: Colour, amount: float = 18.0) -> Colour:
    """Give a colour near the named one."""
    red, green, blue = np.clip(np.array(colour) + rng.normal(0, amount, 3), 0, 255)
    return float(red), float(green), float(blue)


def mix(first: Colour, second: Colour, share: float) -> Colour:
    """Blend two colours; `share` is how much of the second."""
    one, two, three = (a * (1 - share) + b * share for a, b in zip(first, second, strict=True))
    return one, two, three


def tilt(points: Points, sideways: float, forwards: float) -> Points:
    """See a flat shape from an angle: what is farther away gets smaller."""
    depth = 1 + sideways * points[:, 0] + forwards * points[:, 1]
    return points / depth[:, None]


def sample(picture: Picture, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> Picture:
    """Look a picture up at other places of [-1, 1]², the nearest pixel each."""
    side = picture.shape[0]
    columns = np.clip(((x + 1) * side / 2).astype(np.int64), 0, side - 1)
    rows = np.clip(((y + 1) * side / 2).astype(np.int64), 0, side - 1)
    return np.asarray(picture[rows, columns])


def blur(picture: Picture, radius: float) -> Picture:
    """Blur a canvas; the radius is in pixels of the large canvas."""
    image = Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8))
    return np.asarray(image.filter(ImageFilter.GaussianBlur(radius)), dtype=np.float32)


def between(noise: npt.NDArray[Any], first: Colour, second: Colour) -> Picture:
    """Turn noise in [0, 1] into colours between two."""
    start, stop = np.array(first, dtype=np.float32), np.array(second, dtype=np.float32)
    share, picture = noise.astype(np.float32), np.empty((*noise.shape, 3), dtype=np.float32)
    for channel in range(3):  # numpy takes thrice as long over an innermost axis of three
        np.multiply(share, (stop - start)[channel], out=picture[..., channel])
        picture[..., channel] += start[channel]
    return picture
