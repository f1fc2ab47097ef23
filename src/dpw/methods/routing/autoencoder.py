"""A small network that learns to repeat what one domain looks like."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

MOST_PASSES = 100


class Autoencoder(nn.Module):
    """One hidden layer that learns to repeat what one domain looks like, values in (0, 1)."""

    def __init__(self, width: int, hidden: int, generator: torch.Generator | None = None) -> None:
        """Weights and biases as a linear layer starts, drawn from the generator."""
        super().__init__()
        self.encode_weight = nn.Parameter(_uniform((hidden, width), width, generator))
        self.encode_bias = nn.Parameter(_uniform((hidden,), width, generator))
        self.decode_weight = nn.Parameter(_uniform((width, hidden), hidden, generator))
        self.decode_bias = nn.Parameter(_uniform((width,), hidden, generator))

    def forward(self, z: Tensor) -> Tensor:
        """The repeated features."""
        code = torch.relu(F.linear(z, self.encode_weight, self.encode_bias))
        return torch.sigmoid(F.linear(code, self.decode_weight, self.decode_bias))

    def error(self, z: Tensor) -> Tensor:
        """Mean squared error of every row `(B,)`."""
        repeated: Tensor = self(z)
        return (repeated - z).square().mean(dim=-1)


def fit_autoencoder(
    model: Autoencoder,
    features: Tensor,
    generator: torch.Generator,
    *,
    iterations: int,
    rate: float,
    weight_decay: float = 1e-4,
    batch_size: int = 64,
    decay_epochs: int = 10,
) -> None:
    """Train on features `(n, W)` by Adam, then freeze.

    The rate falls tenfold every `decay_epochs` passes; for few images, where that would end training after
    a handful of steps, every third of the iterations. No image is seen more than `MOST_PASSES` times.
    """
    per_pass = -(-len(features) // batch_size)
    steps = min(iterations, MOST_PASSES * per_pass)
    decay_steps = max(decay_epochs * per_pass, -(-steps // 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=weight_decay)
    with torch.enable_grad():
        for step in range(steps):
            if step % per_pass == 0:
                order = torch.split(torch.randperm(len(features), generator=generator), batch_size)
            optimizer.param_groups[0]["lr"] = rate * 0.1 ** (step // decay_steps)
            optimizer.zero_grad()
            torch.autograd.backward(model.error(features[order[step % per_pass]]).mean())
            optimizer.step()
    model.requires_grad_(requires_grad=False)


def _uniform(size: tuple[int, ...], inputs: int, generator: torch.Generator | None) -> Tensor:
    """Uniform in ±1/√inputs, the usual start of a linear layer."""
    return (2 * torch.rand(size, generator=generator) - 1) / math.sqrt(inputs)
