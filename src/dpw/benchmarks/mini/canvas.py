"""Painting small pictures: polygons, textures and noise on a canvas, the same bytes for the same seed.

Pictures are `(H, W, 3)` arrays whose three colours lie one behind the other in memory, because numpy takes
several times as long over an innermost axis of three.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter

SIDE = 48
OVERSAMPLING = 2

Points = npt.NDArray[np.float64]
Field = npt.NDArray[np.float64]
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
    across, down = _circle(corners)
    return _points(x + radius * across, y + (height or radius) * down)


@cache
def _circle(corners: int) -> tuple[Field, Field]:
    """Cosine and sine of the angles of a regular polygon."""
    angle = np.linspace(0, 2 * np.pi, corners, endpoint=False)
    return np.cos(angle), np.sin(angle)


def _points(x: Field, y: Field) -> Points:
    """Points from their coordinates; `np.stack` takes twice as long."""
    points = np.empty((len(x), 2))
    points[:, 0], points[:, 1] = x, y
    return points


def box(left: float, top: float, right: float, bottom: float) -> Points:
    """Give an upright rectangle as a polygon."""
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]], dtype=np.float64)


def polygon(*coordinates: float) -> Points:
    """Give a polygon from x, y, x, y, ..."""
    return np.array(coordinates, dtype=np.float64).reshape(-1, 2)


def arc(x: float, y: float, radius: float, height: float, start: float, stop: float) -> Points:
    """Give an open line along an ellipse between two angles in degrees, clockwise from the right."""
    across, down = _bow(start, stop)
    return _points(x + radius * across, y + height * down)


@cache
def _bow(start: float, stop: float) -> tuple[Field, Field]:
    """Cosine and sine along a bow between two angles in degrees."""
    angle = np.radians(np.linspace(start, stop, 12))
    return np.cos(angle), np.sin(angle)


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
    cosine, sine = np.cos(turn), np.sin(turn)
    return _points((x * cosine - y * sine) * size + centre[0], (x * sine + y * cosine) * size + centre[1])


def plain(colour: Colour) -> Picture:
    """Start a large canvas of one colour."""
    side = SIDE * OVERSAMPLING
    picture = _canvas((side, side), np.float64)
    picture[:] = colour
    return picture


def _canvas(shape: tuple[int, ...], kind: type[np.generic]) -> Picture:
    """Room for a picture."""
    return np.empty((3, *shape), dtype=kind).transpose(1, 2, 0)


def _pixels(points: Points) -> list[tuple[float, float]]:
    """Carry points of [-1, 1]² to the large canvas."""
    scaled = (points + 1) * (SIDE * OVERSAMPLING / 2)
    return [(x, y) for x, y in scaled.tolist()]


def mask_of(polygons: Sequence[Points]) -> npt.NDArray[np.bool_]:
    """Mark the canvas where any of the polygons lies."""
    mask, draw = _drawing()
    for points in polygons:
        draw.polygon(_pixels(points), fill=1)
    return mask


def _drawing() -> tuple[npt.NDArray[np.bool_], ImageDraw.ImageDraw]:
    """An empty mask of the canvas, and what draws into its memory; a copy would take as long as a polygon."""
    mask = np.zeros((SIDE * OVERSAMPLING, SIDE * OVERSAMPLING), dtype=np.bool_)
    image = Image.frombuffer("L", mask.shape, mask.view(np.uint8), "raw", "L", 0, 1)
    image.readonly = 0  # Pillow would copy what others own
    return mask, ImageDraw.Draw(image)


def line_mask(lines: Sequence[Points], width: float, closed: bool = False) -> npt.NDArray[np.bool_]:
    """Mark the canvas along lines of a width given in [-1, 1] units, with round joints."""
    mask, draw = _drawing()
    thickness = max(1, round(width * SIDE * OVERSAMPLING / 2))
    for points in lines:
        pixels = _pixels(points)
        draw.line(pixels + pixels[:1] if closed else pixels, fill=1, width=thickness, joint="curve")
        if thickness > 2:
            half = thickness / 2 - 0.5
            for x, y in (pixels[0], pixels[-1]):
                draw.ellipse((x - half, y - half, x + half, y + half), fill=1)
    return mask


def paint(picture: Picture, mask: npt.NDArray[np.bool_], fill: Colour | Picture) -> None:
    """Put a colour or another picture where the mask is set."""
    for channel in range(3):
        picture[..., channel][mask] = (
            fill[..., channel][mask] if isinstance(fill, np.ndarray) else fill[channel]
        )


def finish(picture: Picture, rng: np.random.Generator | None = None, grain: float = 0.0) -> Pixels:
    """Shrink the large canvas to the final uint8 picture by averaging, with a camera's grain if asked for."""
    small = picture[::2, ::2] + picture[1::2, ::2]
    small += picture[::2, 1::2]
    small += picture[1::2, 1::2]
    small /= OVERSAMPLING**2
    if rng is not None:
        small = small + grain * rng.standard_normal(small.shape, dtype=np.float32)
    pixels: Pixels = np.clip(np.round(small), 0, 255).astype(np.uint8, order="C")
    return pixels


@cache
def grid() -> tuple[Field, Field]:
    """Give x and y in [-1, 1] of every pixel of the large canvas, to read only."""
    side = SIDE * OVERSAMPLING
    axis = (np.arange(side) + 0.5) / side * 2 - 1
    x, y = np.meshgrid(axis, axis)
    for coordinate in (x, y):
        coordinate.flags.writeable = False
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
    scaled = (total - low) / (high - low)
    large = np.empty((SIDE, OVERSAMPLING, SIDE, OVERSAMPLING), dtype=np.float32)
    large[:] = scaled[:, None, :, None]
    return large.reshape(SIDE * OVERSAMPLING, SIDE * OVERSAMPLING)


def vary(rng: np.random.Generator, colour: Colour, amount: float = 18.0) -> Colour:
    """Give a colour near the named one."""
    moved = (part + by for part, by in zip(colour, rng.normal(0, amount, 3).tolist(), strict=True))
    red, green, blue = (min(max(part, 0.0), 255.0) for part in moved)
    return red, green, blue


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
    places, found = rows * side + columns, _canvas(x.shape, picture.dtype.type)
    for channel in range(3):
        found[..., channel] = picture[..., channel].reshape(-1)[places]
    return found


def blur(picture: Picture, radius: float) -> Picture:
    """Blur a canvas; the radius is in pixels of the large canvas."""
    image = Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8, order="C"))
    blurred = _canvas(picture.shape[:2], np.float32)
    blurred[:] = np.asarray(image.filter(ImageFilter.GaussianBlur(radius)))
    return blurred


def between(noise: npt.NDArray[Any], first: Colour, second: Colour) -> Picture:
    """Turn noise in [0, 1] into colours between two."""
    start, stop = np.array(first, dtype=np.float32), np.array(second, dtype=np.float32)
    share, picture = noise.astype(np.float32), _canvas(noise.shape, np.float32)
    for channel in range(3):
        np.multiply(share, (stop - start)[channel], out=picture[..., channel])
        picture[..., channel] += start[channel]
    return picture
