"""Domain `digits`: real handwriting, the 8 × 8 digits that scikit-learn carries, put on a black page."""

import gzip
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from dpw.benchmarks.mini.canvas import SIDE, Pixels
from dpw.errors import InputError

CLASSES = tuple("0123456789")
TEMPLATES = ("a photo of the number {}.", "a photo of the digit {}.", 'a photo of the number: "{}".')


@cache
def handwriting() -> tuple[Pixels, npt.NDArray[np.int64]]:
    """Load all digits as uint8 `(1797, 8, 8)`, white on black, with their values.

    The file is read as it lies in scikit-learn: importing that takes as long as importing torch.
    """
    found = find_spec("sklearn")
    if found is None or found.origin is None:
        raise InputError("the mini benchmark needs scikit-learn's digits; install dpw[mini]")
    with gzip.open(Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz", "rt") as file:
        rows = np.array([line.split(",") for line in file], dtype=np.float64)
    images = rows[:, :-1].reshape(-1, 8, 8)
    return (images * (255 / 16)).astype(np.uint8), rows[:, -1].astype(np.int64)


def placed(digit: Pixels, rng: np.random.Generator) -> Pixels:
    """Enlarge a digit smoothly and put it at some place of the page, slightly turned."""
    side = int(rng.integers(26, 45))
    image = Image.fromarray(digit).resize((side, side), Image.Resampling.BICUBIC)
    image = image.rotate(rng.normal(0, 10), Image.Resampling.BICUBIC)
    page = Image.new("L", (SIDE, SIDE))
    left, top = rng.integers(0, SIDE - side + 1, 2)
    page.paste(image, (int(left), int(top)))
    return np.asarray(page)
