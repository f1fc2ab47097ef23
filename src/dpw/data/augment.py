"""The random crop of protocol `zscl`: torchvision's RandomResizedCrop, without torchvision and seeded."""

import math
import random

from PIL import Image

SCALE = (0.9, 1.0)
RATIO = (3 / 4, 4 / 3)
ATTEMPTS = 10

Box = tuple[int, int, int, int]


def random_resized_crop(
    image: Image.Image, size: tuple[int, int], *, seed: int, epoch: int, index: int
) -> Image.Image:
    """Cut a random part of 90-100 % of the area and resize it bicubically to `size` (height, width).

    The cut depends on (seed, epoch, index) and the image's size alone, not on how many images came before.
    """
    box = crop_box(image.size, random.Random(f"{seed}-{epoch}-{index}-crop"))
    return image.crop(box).resize((size[1], size[0]), resample=Image.Resampling.BICUBIC)


def crop_box(image_size: tuple[int, int], generator: random.Random) -> Box:
    """Draw left, top, right, bottom; the whole centre when no drawn shape fits in ten attempts."""
    width, height = image_size
    for _ in range(ATTEMPTS):
        area = width * height * generator.uniform(*SCALE)
        ratio = math.exp(generator.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = generator.randint(0, width - w), generator.randint(0, height - h)
            return left, top, left + w, top + h
    return _centre(width, height)


def _centre(width: int, height: int) -> Box:
    """The largest centred part whose ratio is allowed."""
    w, h = width, height
    if width / height < RATIO[0]:
        h = min(height, round(width / RATIO[0]))
    elif width / height > RATIO[1]:
        w = min(width, round(height * RATIO[1]))
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h
