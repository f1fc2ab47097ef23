"""Parts of a block whose gradients are written out, because autograd would pass over memory more often.

Activations of a training batch do not fit a processor's cache, so besides the products it counts how often
each is read and written: sums go into what a product writes anyway, gradients overwrite what nobody reads
any more. Numbers are those of autograd to rounding; a frozen weight keeps no input.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from dpw.clip.products import add_linear_, as_rows, linear, plus_linear

QUICK = 1.702  # of the quick GELU x·σ(1.702x) = SiLU(1.702x) / 1.702


def by_hand(x: Tensor) -> bool:
    """Whether a pass is trained on a processor in full precision; compilers find their own way."""
    trained = torch.is_grad_enabled() and x.requires_grad
    ready = trained and x.is_cpu and x.dtype == torch.float32
    return ready and not torch.is_autocast_enabled("cpu") and not torch.compiler.is_compiling()


def with_mlp(u: Tensor, norm: nn.LayerNorm, fc1: nn.Linear, fc2: nn.Linear) -> Tensor:
    """U + MLP(LN(U)) with the quick GELU."""
    weights = (norm.weight, norm.bias, fc1.weight, fc1.bias, fc2.weight, fc2.bias)
    out: Tensor = _WithMLP.apply(u, norm.eps, *weights)  # type: ignore[no-untyped-call]
    return out


def with_linear(h: Tensor, x: Tensor, module: nn.Linear) -> Tensor:
    """H + X Wᵀ + b."""
    out: Tensor = _WithLinear.apply(h, x, module.weight, module.bias)  # type: ignore[no-untyped-call]
    return out


def projections(x: Tensor, *modules: nn.Linear) -> tuple[Tensor, ...]:
    """Several linear maps of the same tokens, such as query, key and value."""
    weights = [part for module in modules for part in (module.weight, module.bias)]
    out: tuple[Tensor, ...] = _Projections.apply(x, *weights)  # type: ignore[no-untyped-call]
    return out


class _WithMLP(torch.autograd.Function):
    """U + MLP(LN(U)); the factor of the quick GELU goes into the layer norm and out of the last map."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, eps: float, *weights: Tensor) -> Tensor:
        """`weights` are those of the norm and both maps, each with its bias."""
        gamma, beta, w1, b1, w2, b2 = weights
        x, mean, scale = torch.native_layer_norm(u, gamma.shape, gamma * QUICK, beta * QUICK, eps)
        hidden = linear(x, w1, b1 * QUICK)
        active = F.silu(hidden)
        learned = ctx.needs_input_grad[4], ctx.needs_input_grad[6]
        inputs = [one if wanted else None for one, wanted in zip((x, active), learned, strict=True)]
        ctx.save_for_backward(u, mean, scale, hidden, *inputs, gamma, beta, w1, w2)
        return plus_linear(u, active, w2, b2, 1 / QUICK)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor) -> Any:
        """The factors of the quick GELU cancel, but for the gradients of the maps themselves."""
        u, mean, scale, hidden, x, active, gamma, beta, w1, w2 = ctx.saved_tensors
        inner = linear(outer, w2.t())
        torch.ops.aten.silu_backward.grad_input(inner, hidden, grad_input=inner)
        to_norm = ctx.needs_input_grad[0], *ctx.needs_input_grad[2:4]
        to_u, to_gamma, to_beta = torch.ops.aten.native_layer_norm_backward(
            linear(inner, w1.t()), u, gamma.shape, mean, scale, gamma, beta, to_norm
        )
        to_u = None if to_u is None else to_u.add_(outer)
        to_first = _to_weights(inner, x, ctx.needs_input_grad[4:6], 1 / QUICK)
        to_second = _to_weights(outer, active, ctx.needs_input_grad[6:8], 1 / QUICK)
        return to_u, None, to_gamma, to_beta, *to_first, *to_second


class _WithLinear(torch.autograd.Function):
    """H + X Wᵀ + b, the sum written once."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Keep what the gradients that are asked for need."""
        _, to_x, to_weight, _ = ctx.needs_input_grad
        ctx.save_for_backward(x if to_weight else None, weight if to_x else None)
        return plus_linear(h, x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor) -> Any:
        """What H gets is what the sum got."""
        x, weight = ctx.saved_tensors
        to_x = None if weight is None else linear(outer, weight.t())
        return outer, to_x, *_to_weights(outer, x, ctx.needs_input_grad[2:])


class _Projections(torch.autograd.Function):
    """Linear maps of one X, whose gradients for X are summed as they are computed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        """`weights` are those of all maps, each with its bias."""
        maps, biases = weights[::2], weights[1::2]
        learned = any(ctx.needs_input_grad[1:])
        ctx.save_for_backward(x if learned else None, *maps)
        return tuple(linear(x, weight, bias) for weight, bias in zip(maps, biases, strict=True))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *outer: Tensor) -> Any:
        """One sum for X; each weight its own."""
        x, *maps = ctx.saved_tensors
        to_x = None
        if ctx.needs_input_grad[0]:
            to_x = linear(outer[0], maps[0].t()).contiguous()
            for one, weight in zip(outer[1:], maps[1:], strict=True):
                add_linear_(to_x, one, weight.t())
        wanted = ctx.needs_input_grad[1:]
        of_maps = [_to_weights(one, x, wanted[2 * i : 2 * i + 2]) for i, one in enumerate(outer)]
        return to_x, *(gradient for pair in of_maps for gradient in pair)


def _to_weights(
    outer: Tensor, x: Tensor | None, wanted: Sequence[bool], scale: float = 1.0
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of a map's weight, from its input times `scale`, and bias, each only if it is asked for."""
    to_weight, to_bias = wanted
    rows = as_rows(outer)
    return (
        linear(rows.t(), as_rows(x).t()) * scale if to_weight and x is not None else None,
        rows.sum(dim=0) if to_bias else None,
    )
