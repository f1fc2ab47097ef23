"""Random crops and mirror images of prepared pixels, for folders with few images."""

import hashlib
import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from dpw.data.augment import RATIO


@dataclass(frozen=True)
class Variation:
    """How the pixels of a batch are varied."""

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
