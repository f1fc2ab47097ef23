"""Domain `digits`: real handwriting, the 8 × 8 digits that scikit-learn carries."""

from functools import cache

import numpy as np
import numpy.typing as npt
from PIL import Image

from dpw.benchmarks.mini.canvas import SIDE
from dpw.errors import InputError

CLASSES = tuple("0123456789")
TEMPLATES = ("a photo of the number {}.", "a photo of the digit {}.", 'a photo of the number: "{}".')


@cache
def handwriting() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Load all digits, enlarged smoothly to the benchmark's picture size, white on black."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise InputError("the mini benchmark needs scikit-learn's digits; install dpw[mini]") from error
    data = load_digits()
    enlarged = [
        np.asarray(
            Image.fromarray((image * 15.9375).astype(np.uint8)).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        )
        for image in data.images
    ]
    return np.stack(enlarged), np.asarray(data.target, dtype=np.int64)
