"""Image to pixels, exactly as transformers' CLIP image processor does it, in two halves.

The first half (decode, resize, crop) gives uint8 and is worth keeping; the second (scale, normalise) is
cheap and belongs on the device.
"""

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image, ImageOps

from dpw.errors import InputError

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
# What processors that are not CLIP's do where their file is silent, by the beginning of their names.
OTHER_DEFAULTS: dict[str, dict[str, Any]] = {
    "Siglip": {
        "size": {"height": 224, "width": 224},
        "do_center_crop": False,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
    }
}

LARGEST_VALUE = 1e6  # of a mean, a deviation or a factor of pixels
LONGEST_SIDE = 4096  # pixels
LARGEST = 16_000_000  # pixels of a resized image, before its centre is cut out
Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Preprocessing:
    """What happens to an image before the image tower; the defaults are CLIP ViT-B/16's."""

    size: tuple[int, int] | int | None = 224
    crop: tuple[int, int] | None = (224, 224)
    resample: int = int(Image.Resampling.BICUBIC)
    scale: float | None = 1 / 255
    mean: tuple[float, ...] | None = CLIP_MEAN
    std: tuple[float, ...] | None = CLIP_STD

    @classmethod
    def from_folder(cls, folder: Path) -> "Preprocessing":
        """Read `preprocessor_config.json` (or the image half of `processor_config.json`)."""
        for name in ("preprocessor_config.json", "processor_config.json"):
            path = folder / name
            if not path.is_file():
                continue
            try:
                config = json.loads(path.read_text(encoding="utf-8"))
                return cls.from_config(config.get("image_processor", config))
            except InputError as error:
                raise InputError(f"{path}: {error}") from error
            except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                raise InputError(f"{path} is not a CLIP image preprocessing file: {error}") from error
        raise InputError(f"{folder} has no preprocessor_config.json; copy it from the model it was made from")

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Preprocessing":
        """Understand the fields of transformers' `CLIPImageProcessor`, and of its kin for other families."""
        kind = str(config.get("image_processor_type", ""))
        for beginning, defaults in OTHER_DEFAULTS.items():
            if kind.startswith(beginning):
                config = defaults | config
        size = config.get("size", {"shortest_edge": 224})
        crop = config.get("crop_size", {"height": 224, "width": 224})
        if isinstance(size, dict):
            size = size["shortest_edge"] if "shortest_edge" in size else (size["height"], size["width"])
        if isinstance(crop, dict):
            crop = (crop["height"], crop["width"])
        found = cls(
            size=size if config.get("do_resize", True) else None,
            crop=((crop, crop) if isinstance(crop, int) else tuple(crop))
            if config.get("do_center_crop", True)
            else None,
            resample=int(config.get("resample", Image.Resampling.BICUBIC)),
            scale=float(config.get("rescale_factor", 1 / 255)) if config.get("do_rescale", True) else None,
            mean=tuple(config.get("image_mean", CLIP_MEAN)) if config.get("do_normalize", True) else None,
            std=tuple(config.get("image_std", CLIP_STD)) if config.get("do_normalize", True) else None,
        )
        found.refuse_absurd()
        return found

    def refuse_absurd(self) -> None:
        """Refuse values that no image model has: they would only cost memory or give no numbers."""
        sides = [*(self.size if isinstance(self.size, tuple) else (self.size,)), *(self.crop or ())]
        for side in sides:
            if side is not None and (type(side) is not int or not 1 <= side <= LONGEST_SIDE):
                raise InputError(f"an image side of {side!r} pixels; expected 1 to {LONGEST_SIDE}")
        if self.resample not in list(Image.Resampling):
            raise InputError(f"resample is {self.resample}; expected 0 to {max(Image.Resampling)}")
        for name, values in {"image_mean": self.mean, "image_std": self.std}.items():
            if values is not None and (len(values) != 3 or not all(map(_is_number, values))):
                raise InputError(f"{name} is {values!r:.80}; expected three numbers")
        scaled = self.scale is None or _is_number(self.scale)
        if not scaled or any(value < 1 / LARGEST_VALUE for value in self.std or ()):
            raise InputError(
                f"image_std {self.std} and rescale_factor {self.scale} must be positive, of a usual size"
            )

    def to_config(self) -> dict[str, Any]:
        """Give the fields of transformers' `CLIPImageProcessor` back, for `preprocessor_config.json`."""
        size = self.size if self.size is not None else 224
        crop = self.crop if self.crop is not None else (224, 224)
        named = {"shortest_edge": size} if isinstance(size, int) else {"height": size[0], "width": size[1]}
        return {
            "image_processor_type": "CLIPImageProcessor",
            "do_convert_rgb": True,
            "do_resize": self.size is not None,
            "size": named,
            "do_center_crop": self.crop is not None,
            "crop_size": {"height": crop[0], "width": crop[1]},
            "resample": self.resample,
            "do_rescale": self.scale is not None,
            "rescale_factor": self.scale if self.scale is not None else 1 / 255,
            "do_normalize": self.mean is not None,
            "image_mean": list(self.mean or CLIP_MEAN),
            "image_std": list(self.std or CLIP_STD),
        }

    @property
    def output(self) -> tuple[int, int] | None:
        """Height and width of what comes out; None if that depends on the image."""
        return self.crop or (self.size if isinstance(self.size, tuple) else None)

    @property
    def pixel_fingerprint(self) -> str:
        """Identify the uint8 half, so that kept pixels are never used for another resize or crop."""
        fields = asdict(self)
        text = json.dumps({name: fields[name] for name in ("size", "crop", "resample")}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def pixels(self, image: Image.Image) -> Pixels:
        """Turn any PIL image into uint8 pixels `(3, height, width)`."""
        rgb = upright_rgb(image)
        if self.crop is not None and self.size is not None and _area(self._resized(rgb)) > LARGEST:
            rgb = self._resized_centre(rgb)
        elif self.size is not None:
            rgb = rgb.resize(self._resized(rgb), resample=Image.Resampling(self.resample), reducing_gap=None)
        if self.crop is not None:
            rgb = self._cropped(rgb)
        return np.ascontiguousarray(np.asarray(rgb, dtype=np.uint8).transpose(2, 0, 1))

    def _resized(self, image: Image.Image) -> tuple[int, int]:
        """Width and height after the resize; an int is the length of the shorter side."""
        if isinstance(self.size, tuple):
            return self.size[1], self.size[0]
        assert self.size is not None
        short, long = sorted(image.size)
        longer = int(self.size * long / short)
        return (self.size, longer) if image.width <= image.height else (longer, self.size)

    def _resized_centre(self, image: Image.Image) -> Image.Image:
        """Only the part of the resized image that the crop keeps: a long strip would not fit in memory."""
        assert self.crop is not None
        (width, height), (high, wide) = self._resized(image), self.crop
        wide, high = min(wide, width), min(high, height)
        left, top = (width - wide) // 2, (height - high) // 2
        across, down = image.width / width, image.height / height
        margin = 4 * math.ceil(max(across, down, 1)) + 4  # more than the filter looks around itself
        x, y = max(int(left * across) - margin, 0), max(int(top * down) - margin, 0)
        right, bottom = (left + wide) * across - x, (top + high) * down - y
        end = (min(image.width, x + int(right) + margin), min(image.height, y + int(bottom) + margin))
        near = image.crop((x, y, *end))
        kind = Image.Resampling(self.resample)
        rows = near.resize((wide, near.height), kind, box=(left * across - x, 0, right, near.height))
        return rows.resize((wide, high), kind, box=(0, top * down - y, wide, bottom))

    def _cropped(self, image: Image.Image) -> Image.Image:
        """Cut the centre out, with black borders where the image is smaller than the crop."""
        assert self.crop is not None
        height, width = self.crop
        left, top = (image.width - width) // 2, (image.height - height) // 2
        return image.crop((left, top, left + width, top + height))


def _is_number(value: object) -> bool:
    """Whether a value is a number of a size with which pixels can be computed."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST_VALUE


def _area(size: tuple[int, int]) -> int:
    """Pixels of an image."""
    return size[0] * size[1]


def upright_rgb(image: Image.Image) -> Image.Image:
    """Turn a picture the way its EXIF orientation says and give it three colour channels."""
    if image.getexif().get(ExifTags.Base.Orientation, 1) in range(2, 9):
        image = ImageOps.exif_transpose(image)
    if image.mode != "RGB":
        return image.convert("RGB")
    image.load()  # it may come from a file that is about to be closed
    return image
