"""Printed letters and digits, from the fonts that matplotlib carries."""

from functools import cache
from pathlib import Path

import matplotlib
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from dpw.benchmarks.mini.canvas import OVERSAMPLING, SIDE

FONTS = (
    "DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSerif", "DejaVuSerif-Bold",
    "DejaVuSerif-Italic", "DejaVuSansMono", "DejaVuSansMono-Bold", "STIXGeneral", "STIXGeneralBol",
)  # fmt: skip


@cache
def _font(name: str, size: int) -> ImageFont.FreeTypeFont:
    """Open one of the fonts at a size in pixels."""
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return ImageFont.truetype(str(folder / f"{name}.ttf"), size)


def glyph_mask(character: str, radius: float, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Mark the canvas where a printed character lies, slightly turned and slanted."""
    side = SIDE * OVERSAMPLING
    image = Image.new("L", (side, side))
    font = _font(str(rng.choice(FONTS)), int(4 * round(radius * side * 1.25 / 4)))
    shift = rng.uniform(-1, 1, 2) * (1 - radius) * side * 0.4
    middle = (side / 2 + shift[0], side / 2 + shift[1])
    ImageDraw.Draw(image).text(middle, character, fill=255, font=font, anchor="mm")
    slant, stretch, turn = rng.normal(0, 0.12), rng.uniform(0.85, 1.2), np.radians(rng.normal(0, 6))
    matrix = np.array([[stretch, slant], [0, 1]]) @ np.array(
        [[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]
    )
    offset = np.array([side / 2, side / 2]) - matrix @ np.array([side / 2, side / 2])
    rows = (*matrix[0], offset[0], *matrix[1], offset[1])
    turned = image.transform((side, side), Image.Transform.AFFINE, rows, Image.Resampling.BILINEAR)
    return np.asarray(turned) > 127
