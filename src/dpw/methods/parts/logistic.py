"""Multinomial logistic regression on features: what a linear probe is."""

import torch
from torch import Tensor
from torch.nn import functional as F


def fit_logistic(
    features: Tensor, labels: Tensor, classes: int, strength: float, rounds: int
) -> tuple[Tensor, Tensor]:
    """Weights `(C, E)` and bias `(C,)` of least summed loss + ‖W‖²/(2·strength), in float64.

    L-BFGS from zero, so the same images give the same numbers. The objective is divided by the number of
    images, which moves no minimum.
    """
    features = features.double()
    weight = torch.zeros(classes, features.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(classes, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=rounds, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        """The objective with its gradient."""
        optimizer.zero_grad()
        fit = F.cross_entropy(features @ weight.T + bias, labels, reduction="sum")
        value = (fit + (weight**2).sum() / (2 * strength)) / len(features)
        value.backward()  # type: ignore[no-untyped-call]
        return value

    with torch.enable_grad():
        optimizer.step(loss)  # type: ignore[no-untyped-call]
    return weight.detach(), bias.detach()
