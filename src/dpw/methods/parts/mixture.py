"""A mixture of adapters beside the MLP: experts shared by all tasks, mixed by a router of each task."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dpw.clip.adaptation import Adaptation
from dpw.clip.backbone import TowerShape

# count(block, chosen (B, k)) is told which experts every sample took in training.
Count = Callable[[int, Tensor], None]


class Expert(nn.Module):
    """A bottleneck E(u) = scale · (up · dropout(relu(down · u + b₁)) + b₂) that starts as zero."""

    def __init__(self, width: int, rank: int, generator: torch.Generator) -> None:
        """`down` is drawn as a linear layer's weight, all else is zero."""
        super().__init__()
        bound = 1 / math.sqrt(width)
        self.down = nn.Parameter((2 * torch.rand(width, rank, generator=generator) - 1) * bound)
        self.down_bias = nn.Parameter(torch.zeros(rank))
        self.up = nn.Parameter(torch.zeros(rank, width))
        self.up_bias = nn.Parameter(torch.zeros(width))

    def forward(self, u: Tensor, scale: float, dropout: float) -> Tensor:
        """What the expert adds to tokens u `(B, N, D)`; `dropout` is zero outside training."""
        hidden = F.dropout(torch.relu(u @ self.down + self.down_bias), dropout)
        return scale * (hidden @ self.up + self.up_bias)


class Experts(nn.Module):
    """All experts of a tower, and which of them are frozen because a task relies on them."""

    frozen: Tensor

    def __init__(self, shape: TowerShape, experts: int, rank: int, generator: torch.Generator) -> None:
        """The same number of experts in every block."""
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.ModuleList(Expert(shape.width, rank, generator) for _ in range(experts))
            for _ in range(shape.blocks)
        )
        self.register_buffer("frozen", torch.zeros(shape.blocks, experts, dtype=torch.bool))

    def at(self, block: int, expert: int) -> Expert:
        """One expert."""
        found = self.blocks[block][expert]  # type: ignore[index]
        assert isinstance(found, Expert)
        return found

    def unfreeze_the_rest(self) -> None:
        """Let every expert learn that no task relies on."""
        for block, row in enumerate(self.frozen.tolist()):
            for expert, frozen in enumerate(row):
                self.at(block, expert).requires_grad_(requires_grad=not frozen)

    def freeze_most_used(self, counts: Tensor, number: int) -> None:
        """Freeze, in every block, the experts chosen most often by counts `(K, experts)`."""
        for block, row in enumerate(counts):
            # A stable order, so that of equals the first is frozen on every machine.
            self.frozen[block, row.argsort(descending=True, stable=True)[:number]] = True


class TaskRouter(nn.Module):
    """One task's choice of experts in every block of a tower: gates and their noise `(K, D, experts)`."""

    def __init__(self, gate: Tensor, noise: Tensor) -> None:
        """Take the starting values."""
        super().__init__()
        self.gate, self.noise = nn.Parameter(gate.clone()), nn.Parameter(noise.clone())


class MixtureAdaptation(Adaptation):
    """One task's mixture in one tower for one call; a sample's first token chooses for all its tokens.

    In a tower whose first token is like any other, the mean token chooses.
    """

    def __init__(
        self,
        experts: Experts,
        router: TaskRouter,
        *,
        top: int,
        scale: float,
        dropout: float = 0.0,
        noise_floor: float = 0.0,
        count: Count | None = None,
        first_chooses: bool = True,
    ) -> None:
        """With `count` (training) the choice is noisy and reported; without it, it is certain."""
        self.experts, self.router = experts, router
        self.top, self.scale, self.dropout, self.noise_floor = top, scale, dropout, noise_floor
        self.count, self.first_chooses = count, first_chooses

    def gates(self, block: int, u: Tensor) -> tuple[Tensor, Tensor]:
        """Experts `(B, k)` of every sample and their weights `(B, k)`, which sum to one."""
        chooser = u[:, 0] if self.first_chooses else u.mean(dim=1)
        scores = chooser @ self.router.gate[block]
        if self.count is not None:
            deviation = F.softplus(chooser @ self.router.noise[block]) + self.noise_floor
            scores = scores + torch.randn_like(scores) * deviation
        best, chosen = scores.topk(min(self.top, scores.shape[-1]), dim=-1)
        if self.count is not None:
            self.count(block, chosen)
        return chosen, torch.softmax(best, dim=-1)

    def mlp(self, block: int, u: Tensor) -> Tensor:
        """The weighted sum of the chosen experts; each sees only the samples that chose it."""
        chosen, weights = self.gates(block, u)
        out = torch.zeros_like(u)
        for expert in sorted(set(chosen.flatten().tolist())):
            rows, ranks = (chosen == expert).nonzero(as_tuple=True)
            added = self.experts.at(block, expert)(u[rows], self.scale, self.dropout)
            out = out.index_add(0, rows, (weights[rows, ranks, None, None] * added).to(out.dtype))
        return out
