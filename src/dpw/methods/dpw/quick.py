"""The equations of `functional` as the towers compute them: the same numbers with less work.

Products go to the quickest library, and in training O_R has its gradients written out, with half the passes
over memory that autograd's own would take.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from dpw import functional as paper
from dpw.clip.products import linear

FEW = 2**21  # multiplications of a product in training below which oneDNN's calls cost more than they save


def repa_scores(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`functional.repa_scores`; where every head sees all of x, W^G of all heads is one linear map."""
    heads, rows, prefixes = weight.shape
    if rows != x.shape[2]:
        return paper.repa_scores(x, weight, bias)
    scores = _linear(x, weight.transpose(1, 2).reshape(heads * prefixes, rows))
    by_head = scores.reshape(-1, x.shape[1], heads, prefixes) + bias[:, : x.shape[1]].transpose(0, 1)
    return by_head.transpose(1, 2)


def adapter_output(
    x: Tensor,
    down: Tensor,
    up: Tensor,
    bias: Tensor,
    scale: float,
    dropout: float = 0.0,
    share: tuple[int, int, int] | None = None,
) -> Tensor:
    """`functional.adapter_output` by two linear maps."""
    hidden = paper.dropped(_linear(x, down.t()), dropout, share)
    return _linear(hidden, (up * scale).t(), bias * scale)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """X Wᵀ + b by the quickest library; in training that depends on how many tokens there are."""
    few = torch.is_grad_enabled() and x.numel() * len(weight) < FEW
    return F.linear(x, weight, bias) if few else linear(x, weight, bias)


def trained_residual(scores: Tensor, values: Tensor, adapted: Tensor) -> Tensor:
    """`functional.weighted_residual` where all counts and nothing is cut, as in training.

    On a processor in full precision its gradients are computed by hand; a compiler and devices that compute
    in less precision are left to find their own way.
    """
    by_hand = torch.is_grad_enabled() and scores.is_cpu and not torch.compiler.is_compiling()
    if not by_hand or torch.is_autocast_enabled("cpu"):
        return paper.weighted_residual(scores, values, adapted)
    residual: Tensor = _Residual.apply(scores, values, adapted)  # type: ignore[no-untyped-call]
    return residual


class _Residual(torch.autograd.Function):
    """O_R = G P_V + Δ ⊙ E(X) (Eq. final_formula) by head; G = σ(S) / max(1, Σσ), Δ = max(1, Σσ) − 1."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, values: Tensor, adapted: Tensor) -> Tensor:
        """From scores `(B, h, N, L)`, values `(L, D)` and E(X) `(B, N, D)`."""
        gates = torch.sigmoid(scores.transpose(1, 2).contiguous())  # (B, N, h, L)
        total = gates.sum(dim=-1, keepdim=True)
        most = total.clamp(min=1)
        g = gates.div_(most)
        by_head = adapted.reshape(*g.shape[:3], -1)
        out = by_head.new_empty(by_head.shape)  # in order, as what is written through a view must be
        torch.bmm(_heads(g), _prefixes(values, g), out=_heads(out))
        ctx.save_for_backward(g, total, values, adapted)
        return out.addcmul_(most - 1, by_head).flatten(2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *outer: Tensor) -> Any:
        """Gradients of scores, values and E(X)."""
        g, total, values, adapted = ctx.saved_tensors
        most = total.clamp(min=1)
        by_head = outer[0].reshape(*g.shape[:3], -1)
        to_values = torch.bmm(_heads(g).transpose(1, 2), _heads(by_head))  # (h, L, D/h)
        to_adapted = by_head * (most - 1)
        to_g = g.new_empty(g.shape)
        torch.bmm(_heads(by_head), _prefixes(values, g).transpose(1, 2), out=_heads(to_g))
        # Where the shares sum to more than one, a gate also moves their sum, which Δ and all of G feel.
        to_delta = (by_head * adapted.reshape_as(by_head)).sum(dim=-1, keepdim=True)
        to_total = (to_delta - (to_g * g).sum(dim=-1, keepdim=True) / most).mul_(total >= 1)
        gates = g * most
        to_scores = to_g.div_(most).add_(to_total).mul_(gates).mul_(1 - gates)
        return to_scores.transpose(1, 2), to_values.transpose(0, 1).flatten(1), to_adapted.flatten(2)


def _heads(by_token: Tensor) -> Tensor:
    """What all tokens have of each head, `(h, B · N, d)`, of tensors `(B, N, h, d)`."""
    return by_token.flatten(0, 1).transpose(0, 1)


def _prefixes(values: Tensor, g: Tensor) -> Tensor:
    """Prefix values `(h, L, D/h)` by head."""
    return values.reshape(g.shape[3], g.shape[2], -1).transpose(0, 1)
