"""Random crops: that of protocol `zscl` (RandomResizedCrop, seeded), and variations of prepared pixels."""

import hashlib
import math
import random
from dataclasses import dataclass

import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

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


@dataclass(frozen=True)
class Variation:
    """Random crops and mirror images of prepared pixels, for folders with few images."""

    least_area: float  # the smallest share of the area that a crop keeps
    mirror: bool = False

    def apply(self, pixels: Tensor, key: str) -> Tensor:
        """Varied copies of uint8 pixels `(B, 3, H, W)`, each resized to H × W; the key decides the draws."""
        digest = hashlib.sha256(f"{key}-variation".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
        count = len(pixels)

        def draw(low: float, high: float) -> Tensor:
            """One number for each image."""
            return low + (high - low) * torch.rand(count, generator=generator)

        area, ratio = draw(self.least_area, 1.0), draw(math.log(RATIO[0]), math.log(RATIO[1])).exp()
        width, height = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
        turned = torch.where((draw(0, 1) < 0.5) & self.mirror, -1.0, 1.0)
        zero = torch.zeros(count)
        across = torch.stack([width * turned, zero, draw(-1, 1) * (1 - width)], dim=1)
        down = torch.stack([zero, height, draw(-1, 1) * (1 - height)], dim=1)
        grid = F.affine_grid(torch.stack([across, down], dim=1), list(pixels.shape), align_corners=False)
        varied = F.grid_sample(pixels.float(), grid, padding_mode="reflection", align_corners=False)
        return varied.round().clamp(0, 255).to(torch.uint8)
