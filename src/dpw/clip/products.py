"""Linear maps by the library that is quickest where they are computed.

On a processor torch multiplies float32 matrices by MKL, which uses all of AVX-512 on Intel's processors only,
and there nothing is quicker. oneDNN, which torch brings along for convolutions, uses it everywhere: on an AMD
EPYC (Zen 5) it is 2.2 times as fast as MKL. Both sum the same products in float32.
"""

import platform
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`F.linear`: X Wᵀ + b for tokens `(..., D)` and a weight `(E, D)`, by the quickest library.

    Answers, which are computed in inference mode, are oneDNN's on Intel's processors too: it sums all rows
    alike, so that an image has the same digits alone and in any batch.
    """
    if not _by_onednn(x, weight):
        return F.linear(x, weight, bias)
    if not torch.is_grad_enabled():
        return _product(x, weight, bias)
    mapped: Tensor = _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return mapped


def plus_linear(h: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None, scale: float = 1.0) -> Tensor:
    """H + s X Wᵀ + b without gradients, the sum written as seldom as the library allows."""
    if _by_onednn(x, weight):
        return torch.add(h, _product(x, weight, None if bias is None else bias / scale), alpha=scale)
    out = h.clone(memory_format=torch.contiguous_format) if bias is None else (h + bias).contiguous()
    return add_linear_(out, x, weight, scale)


def add_linear_(out: Tensor, x: Tensor, weight: Tensor, scale: float = 1.0) -> Tensor:
    """Add s X Wᵀ to a tensor without gaps, in place and without gradients."""
    if _by_onednn(x, weight):
        return out.add_(_product(x, weight), alpha=scale)
    as_rows(out).addmm_(as_rows(x), weight.t(), alpha=scale)
    return out


def _by_onednn(x: Tensor, weight: Tensor) -> bool:
    """Whether a product goes to oneDNN."""
    return _onednn_knows(x, weight) and not (made_by_intel() and not torch.is_inference_mode_enabled())


def _onednn_knows(x: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN can be asked and has all of AVX-512; a compiler is left to choose by itself."""
    if torch.compiler.is_compiling() or not (x.is_cpu and _has_avx512()):
        return False
    single = x.dtype == weight.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
    return single and bool(torch.backends.mkldnn.enabled) and x.numel() > 0


@cache
def _has_avx512() -> bool:
    """Whether this processor has what oneDNN is quick with, and this torch has oneDNN."""
    there: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    avx512 = torch.backends.cpu.get_cpu_capability() == "AVX512"
    return there and hasattr(torch.ops.mkldnn, "_linear_pointwise") and avx512


@cache
def made_by_intel() -> bool:
    """Whether this machine's processor is Intel's, by what Linux or other systems say of it."""
    try:
        described = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        described = platform.processor()
    return "GenuineIntel" in described


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """X Wᵀ + b by oneDNN, a row's digits not depending on the other rows; torch has no public name for it.

    A single row would be summed in another order than the same row among others, and is asked for twice.
    """
    alone = x.numel() == x.shape[-1]
    rows = x.reshape(1, -1).expand(2, -1) if alone else x
    found: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return found[0].view(*x.shape[:-1], -1) if alone else found


def as_rows(x: Tensor) -> Tensor:
    """Tokens as one matrix without gaps; oneDNN takes 200 times as long over one token of every image."""
    return x.reshape(-1, x.shape[-1]).contiguous()


class _Linear(torch.autograd.Function):
    """A linear map and its gradients; a frozen weight keeps no input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Keep what the gradients that are asked for need."""
        to_x, to_weight, _ = ctx.needs_input_grad
        ctx.save_for_backward(x if to_weight else None, weight if to_x else None)
        return _product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> Any:
        """Gradients of tokens, weight and bias, each only if it is asked for."""
        x, weight = ctx.saved_tensors
        rows = as_rows(outer[0])
        return (
            None if weight is None else _product(outer[0], weight.t()),
            None if x is None else _product(rows.t(), as_rows(x).t()),
            rows.sum(dim=0) if ctx.needs_input_grad[2] else None,
        )
