"""Running mean and variance of scores, block by block."""

from collections.abc import Mapping
from functools import cache

import torch
from torch import Tensor


@cache
def knows_double(device: torch.device) -> bool:
    """Whether a device computes in float64; scores of one that does not are summed on the host."""
    try:
        torch.zeros((), dtype=torch.float64, device=device)
    except (RuntimeError, TypeError):
        return False
    return True


class RunningScores:
    """Sums in float64 of scores and of their squares for every block; mean and biased variance follow.

    They stay where the scores are, so that no training step waits for them.
    """

    def __init__(self) -> None:
        """Start empty."""
        self.sums: dict[int, Tensor] = {}
        self.squares: dict[int, Tensor] = {}
        self.counts: dict[int, int] = {}

    def clear(self) -> None:
        """Start anew."""
        self.sums, self.squares, self.counts = {}, {}, {}

    def add(self, block: int, scores: Tensor) -> None:
        """Add the scores `(B, h, L)` of one batch."""
        # A constant score has variance 0 in float64; float32 sums would leave noise above the clamp.
        scores = scores.detach()
        scores = (scores if knows_double(scores.device) else scores.cpu()).double()
        zero = torch.zeros_like(scores[0])
        self.sums[block] = self.sums.get(block, zero).to(scores) + scores.sum(dim=0)
        self.squares[block] = self.squares.get(block, zero).to(scores) + (scores**2).sum(dim=0)
        self.counts[block] = self.counts.get(block, 0) + len(scores)

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and variance `(K, h, L)` over everything added."""
        blocks = sorted(self.sums)
        mean = torch.stack([self.sums[block] / self.counts[block] for block in blocks])
        square = torch.stack([self.squares[block] / self.counts[block] for block in blocks])
        return mean, square - mean**2

    def state(self) -> dict[str, Tensor]:
        """The sums as tensors, for a checkpoint."""
        if not self.sums:
            return {}
        blocks = sorted(self.sums)
        return {
            "scores.sums": torch.stack([self.sums[block] for block in blocks]),
            "scores.squares": torch.stack([self.squares[block] for block in blocks]),
            "scores.counts": torch.tensor([self.counts[block] for block in blocks]),
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the sums back."""
        self.clear()
        if tensors:
            self.sums = dict(enumerate(tensors["scores.sums"].double().unbind(0)))
            self.squares = dict(enumerate(tensors["scores.squares"].double().unbind(0)))
            self.counts = dict(enumerate(tensors["scores.counts"].tolist()))
