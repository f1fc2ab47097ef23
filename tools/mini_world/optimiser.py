"""How the pretraining starts and steps: well-spread patch and place codes, and orthogonal matrix updates."""

import math
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn


def place_codes(side: int, width: int) -> Tensor:
    """Give sines and cosines of column and row for every patch, `(side², width)`."""
    frequency = 100.0 ** -(torch.arange(width // 4) / (width // 4))
    row, column = torch.meshgrid(torch.arange(side).float(), torch.arange(side).float(), indexing="ij")
    waves = [place.flatten()[:, None] * frequency for place in (column, row)]
    return torch.cat([function(wave) for wave in waves for function in (torch.sin, torch.cos)], dim=1)


def cosine_filters(patch: int, width: int) -> Tensor:
    """Give cosine patterns over a patch: half in brightness, a quarter in each of two contrasts."""
    step = np.arange(patch)
    waves = np.cos(np.pi * (step[None] + 0.5) * step[:, None] / patch) / math.sqrt(patch / 2)
    waves[0] /= math.sqrt(2)
    order = sorted(((i, j) for i in range(patch) for j in range(patch)), key=lambda pair: (sum(pair), pair))
    contrasts = (((1, 1, 1), width // 2), ((1, -1, 0), width // 4), ((1, 1, -2), width // 4))
    filters = [
        np.multiply.outer(np.array(colour) / np.linalg.norm(colour), np.outer(waves[i], waves[j]))
        for colour, count in contrasts
        for i, j in order[:count]
    ]
    return torch.tensor(np.stack(filters), dtype=torch.float32)


class OrthogonalMomentum(torch.optim.Optimizer):
    """Muon: momentum whose matrix is made nearly orthogonal before it is applied, so all directions learn."""

    def __init__(
        self, matrices: Iterable[nn.Parameter], lr: float, momentum: float = 0.95, decay: float = 0.05
    ) -> None:
        """Take the matrices to learn."""
        super().__init__(matrices, {"lr": lr, "momentum": momentum, "decay": decay})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Update all matrices, those of equal shape together."""
        for group in self.param_groups:
            alike = defaultdict(list)
            for matrix in group["params"]:
                mean = self.state[matrix].setdefault("mean", torch.zeros_like(matrix))
                mean.lerp_(matrix.grad, 1 - group["momentum"])
                update = matrix.grad.lerp(mean, group["momentum"])
                tall = update.shape[0] > update.shape[1]
                alike[tuple(sorted(update.shape))].append((matrix, update.T if tall else update, tall))
            for members in alike.values():
                for (matrix, _, tall), change in zip(
                    members, _orthogonal([u for _, u, _ in members]), strict=True
                ):
                    scale = group["lr"] * max(1.0, matrix.shape[0] / matrix.shape[1]) ** 0.5
                    matrix.mul_(1 - group["lr"] * group["decay"]).sub_(scale * (change.T if tall else change))


def _orthogonal(updates: list[Tensor]) -> Tensor:
    """Push all singular values towards one by five Newton-Schulz steps."""
    x = torch.stack(updates)
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        square = x @ x.mT
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x
