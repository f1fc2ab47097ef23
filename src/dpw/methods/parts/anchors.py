"""Restraints in weight space that pull towards an anchor: the weights before the task, or plain CLIP's."""

from typing import Literal

import torch
from torch import Tensor

from dpw.methods.base import TaskImages
from dpw.methods.finetune import FineTune, learned_weights
from dpw.methods.parts.restraints import Restraint


class StayNear(Restraint):
    """The squared distance from the weights before the task is a cost (L2 consolidation)."""

    needs_previous = True

    def __init__(self, method: FineTune, weight: float) -> None:
        """`weight` is the factor on the distance; 0 switches it off."""
        self.method, self.weight = method, weight

    def cost(self) -> Tensor:
        """weight · Σ (θ − θ_previous)²."""
        if not self.weight:
            return super().cost()
        previous = self.method.previous_weights()
        weights = self.method.weights().items()
        distances = [(tensor - previous[name]).square().sum() for name, tensor in weights]
        return self.weight * torch.stack(distances).sum()


class Interpolation(Restraint):
    """When a task ends, the weights go part of the way back to an anchor (WiSE-FT)."""

    needs_previous = True

    def __init__(self, method: FineTune, keep: float, anchor: Literal["previous", "zeroshot"]) -> None:
        """Keep a share of the fine-tuned weights; the rest comes from the anchor."""
        self.method, self.keep, self.anchor = method, keep, anchor

    @torch.no_grad()
    def end(self, images: TaskImages) -> None:  # noqa: ARG002
        """θ ← keep · θ_finetuned + (1 − keep) · θ_anchor."""
        method, weights = self.method, self.method.weights()
        anchor = method.previous_model if self.anchor == "previous" else method.backbone
        for name, target in learned_weights(anchor).items():
            weights[name].copy_(target.lerp(weights[name], self.keep))
