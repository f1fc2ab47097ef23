"""From an image file to an upright RGB picture, within bounded memory, or one sentence that says why not."""

import math
import os
import stat
import struct
import threading
import warnings
from pathlib import Path
from typing import BinaryIO

from PIL import Image, UnidentifiedImageError

from dpw.clip.preprocessing import upright_rgb
from dpw.errors import InputError

DECODING_ERRORS = (
    OSError,
    ValueError,
    SyntaxError,
    EOFError,
    struct.error,
    LookupError,
    TypeError,
    ArithmeticError,
    MemoryError,
    Image.DecompressionBombError,
    UserWarning,  # where warnings are made errors: Pillow's about damaged tags
    Image.DecompressionBombWarning,
)
MAX_PIXELS = 2 * 89_478_485
LARGE = 32_000_000  # pixels; a picture with more is made smaller at once, one at a time
COPIES = {"WEBP": 2}  # formats whose decoder holds several pictures of four bytes a pixel
RUNS_OTHERS = ("EPS",)  # formats that Pillow hands to another program, such as Ghostscript
DRAFT = 2048  # the side in pixels that a large JPEG is at least decoded to

_one_at_a_time = threading.Lock()
# Our own limit, which a user can raise, stands in place of Pillow's; damaged tags cost no pixel.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")


def open_image(file: Path | BinaryIO, where: str | None = None) -> Image.Image:
    """Decode a file to an upright RGB image, or say in one sentence why that is impossible."""
    named = where or str(file)
    try:
        if isinstance(file, Path) and _is_special(file):
            raise InputError(f"{named} is no plain file (a pipe, socket or device); give an image file")
        with Image.open(file) as image:
            if image.format in RUNS_OTHERS:
                raise InputError(f"{named} is {image.format}, a program that draws; give it as PNG or JPEG")
            _refuse_too_big(image, named)
            if image.width * image.height <= LARGE:
                return upright_rgb(image)
            with _one_at_a_time:
                return upright_rgb(_smaller(image))
    except InputError:
        raise
    except FileNotFoundError as error:
        raise missing(named) from error
    except DECODING_ERRORS as error:
        raise InputError(f"{named} {_reason(file, error)}; replace it by a good copy or remove it") from error


def max_pixels() -> int:
    """How many pixels an image may have: DPW_MAX_PIXELS, or what Pillow refuses without being told more."""
    chosen = os.environ.get("DPW_MAX_PIXELS")
    if chosen is None:
        return MAX_PIXELS
    if not chosen.isdecimal() or not int(chosen):
        raise InputError(f"DPW_MAX_PIXELS is {chosen!r}; give a whole number of pixels, such as {MAX_PIXELS}")
    Image.MAX_IMAGE_PIXELS = max(Image.MAX_IMAGE_PIXELS or 0, int(chosen))
    return int(chosen)


def _refuse_too_big(image: Image.Image, named: str) -> None:
    """Refuse an image before its pixels are decoded."""
    limit = max_pixels()
    if "DPW_MAX_PIXELS" not in os.environ:
        limit //= COPIES.get(image.format or "", 1)
    if image.width * image.height > limit:
        raise InputError(
            f"{named} has {image.width} x {image.height} pixels, more than {limit}; make it smaller, or "
            "raise the limit with DPW_MAX_PIXELS"
        )


def _smaller(image: Image.Image) -> Image.Image:
    """A large picture at a fraction of its size: decoded so where the format can, else right afterwards."""
    image.draft("RGB", (DRAFT, DRAFT))
    factor = math.isqrt(image.width * image.height // LARGE) + 1
    wide, high = min(factor, image.width), min(factor, image.height)
    return image if image.width * image.height <= LARGE else image.convert("RGB").reduce((wide, high))


def _is_special(path: Path) -> bool:
    """Whether a path is something that can be opened and waited for, but not an image."""
    mode = path.stat().st_mode
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _reason(file: Path | BinaryIO, error: Exception) -> str:
    """Say what is wrong with an image file."""
    if isinstance(file, Path) and file.is_dir():
        return "is a folder, not an image"
    if isinstance(file, Path) and file.is_file() and file.stat().st_size == 0:
        return "is an empty file (0 bytes)"
    if isinstance(error, Image.DecompressionBombError):
        return f"has more than {max_pixels()} pixels (DPW_MAX_PIXELS raises the limit)"
    if isinstance(error, PermissionError):
        return "may not be read (mend its rights)"
    if isinstance(error, UnidentifiedImageError) and str(file).lower().endswith((".heic", ".heif")):
        return "is in the format HEIC, which has to be converted to JPEG or PNG first"
    if isinstance(error, UnidentifiedImageError):
        return "is not an image that can be read"
    return f"cannot be decoded ({error})"


def missing(path: str) -> InputError:
    """Explain that a file is not there."""
    return InputError(f"{path} does not exist; name an image file that is there")
