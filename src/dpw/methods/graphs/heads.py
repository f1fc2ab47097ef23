"""The closed-form heads of `dpw-ridge` as part of a graph: all tasks' landmarks in one product."""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dpw.methods.graphs.towers import rows_of
from dpw.methods.parts.ridge_head import GAMMA, TEMPERATURES, RidgeHead


class HeadGraph(nn.Module):
    """The `RidgeHead`s of T tasks for pairs of an image and a task; class lists are filled up to one length.

    Landmarks of other tasks are masked: one product with all of them is cheaper than gathering the task's
    own for every image.
    """

    centre: Tensor
    length: Tensor
    temperatures: Tensor
    shares: Tensor
    landmarks: Tensor
    landmark_squares: Tensor
    weights: Tensor
    owner: Tensor
    real: Tensor
    columns: Tensor
    frozen_texts: Tensor
    adapted_texts: Tensor

    def __init__(self, stored: Sequence[Mapping[str, Tensor]], scale: float) -> None:
        """`stored` are the tensors of each task's head, with its class texts."""
        super().__init__()
        heads = [RidgeHead.stored(tensors) for tensors in stored]
        counts = torch.tensor([head.weights.shape[1] for head in heads])
        first, longest = counts.cumsum(0) - counts, int(counts.max())
        columns = torch.arange(longest)[None].expand(len(heads), -1)
        owner = torch.arange(len(heads)).repeat_interleave(torch.tensor([len(h.landmarks) for h in heads]))
        weights = [F.pad(head.weights, (0, longest - head.weights.shape[1])) for head in heads]
        self.scale = scale
        for name, tensor in {
            "centre": torch.stack([head.centre for head in heads]),
            "length": torch.stack([head.length for head in heads]),
            "temperatures": torch.stack([head.temperatures for head in heads]),
            "shares": torch.stack([head.shares for head in heads]),
            "landmarks": torch.cat([head.landmarks for head in heads]).float(),  # as they are stored
            "landmark_squares": torch.cat([(head.landmarks**2).sum(dim=1) for head in heads]),
            "weights": torch.cat(weights),
            "owner": owner,
            "real": columns < counts[:, None],  # (T, longest)
            "columns": first[:, None] + torch.minimum(columns, counts[:, None] - 1),
            "frozen_texts": torch.cat([one["frozen_texts"] for one in stored]).float(),
            "adapted_texts": torch.cat([one["adapted_texts"] for one in stored]).float(),
        }.items():
            self.register_buffer(name, tensor)

    def forward(self, task: Tensor, views: Tensor, frozen: Tensor, adapted: Tensor) -> Tensor:
        """Logits over the own classes of each pair's task, `(P, longest)`, −∞ beyond its last class.

        views `(P, D)` are the pair's views side by side, frozen and adapted `(P, E)` its features.
        """
        real = rows_of(self.real, task)
        zero_shot = self._own(task, frozen.double() @ self.frozen_texts.double().T)
        text = self._own(task, adapted.double() @ self.adapted_texts.double().T)
        scores = self._prior(task, zero_shot, real) + self._regression(task, views)
        q, t = rows_of(self.shares, task).unbind(dim=1)
        return torch.where(real, q[:, None] * scores + t[:, None] * text, -math.inf)

    def _own(self, task: Tensor, cosines: Tensor) -> Tensor:
        """Logits over the task's own classes out of cosines with all."""
        return self.scale * cosines.gather(1, rows_of(self.columns, task))

    def _prior(self, task: Tensor, zero_shot: Tensor, real: Tensor) -> Tensor:
        """Zero-shot probabilities averaged over temperatures."""
        shares, total = rows_of(self.temperatures, task), torch.zeros_like(zero_shot)
        for number, temperature in enumerate(TEMPERATURES):
            calm = torch.where(real, temperature * zero_shot, -math.inf).softmax(dim=1)
            total = total + shares[:, number, None] * calm
        return total

    def _regression(self, task: Tensor, views: Tensor) -> Tensor:
        """k(z, landmarks) · A over the landmarks of the pair's own task."""
        places = (views.double() - rows_of(self.centre, task)) / rows_of(self.length, task)
        products = places @ self.landmarks.double().T
        squares = (places**2).sum(dim=1)[:, None] + self.landmark_squares - 2 * products
        near = torch.exp(-GAMMA * squares.clamp(min=0))
        return torch.where(self.owner == task[:, None], near, 0.0) @ self.weights
