"""Answers that do not depend, to the last bit, on which other images are in the batch.

Libraries choose their kernels by shape: a product of one row is summed in another order than the same row
among sixty, and the last elements of a vector are computed by other instructions than the rest. Both happen
only with fewer than a few rows, or in the rest that a vector leaves. Here every product gets a number of rows
that is a multiple of `ROWS`, and every element-wise function a number of elements that fills whole vectors;
what is added is zeros (ones for functions of positive numbers) and cut off again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

ROWS = 8  # 8 float64 rows are two of the widest registers; below 4 rows libraries take other kernels
ELEMENTS = 32  # a multiple of every vector's length


class BatchInvariance(TorchFunctionMode):
    """Inside a `with` block of this, no image's numbers depend on the other images of its batch.

    Example:
        >>> import torch
        >>> from dpw.engine.invariance import BatchInvariance
        >>> rows, weight = torch.randn(20, 64), torch.randn(32, 64)
        >>> with BatchInvariance():
        ...     torch.equal((rows @ weight.T)[:1], rows[:1] @ weight.T)
        True
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Carry a function out, in whole blocks of rows where its kernel depends on their number."""
        return _IN_BLOCKS.get(func, func)(*args, **(kwargs or {}))


def _rows(x: Tensor) -> Tensor:
    """A tensor `(..., K)` as rows `(M, K)`, M being a multiple of `ROWS`."""
    flat = x.reshape(-1, x.shape[-1])
    return F.pad(flat, (0, 0, 0, -len(flat) % ROWS))


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`F.linear` over whole blocks of rows."""
    rows, count = _rows(x), x.numel() // x.shape[-1]
    out = rows @ weight.t() if bias is None else torch.addmm(bias, rows, weight.t())
    return out[:count].view(*x.shape[:-1], len(weight))


def _addmm(bias: Tensor, x: Tensor, weight: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """`torch.addmm` with a bias for all rows, over whole blocks of rows."""
    if bias.dim() != 1:
        return torch.addmm(bias, x, weight, beta=beta, alpha=alpha)
    return torch.addmm(bias, _rows(x), weight, beta=beta, alpha=alpha)[: len(x)]


def _matmul(x: Tensor, other: Tensor) -> Tensor:
    """`x @ other`; of several matrices each has its own rows, and only their layout depends on the batch."""
    if other.dim() != 2 or x.dim() == 1:
        return torch.matmul(x.contiguous(), other.contiguous())
    rows, count = _rows(x), x.numel() // x.shape[-1]
    return torch.mm(rows, other)[:count].view(*x.shape[:-1], other.shape[1])


def _einsum(equation: str, x: Tensor, *others: Tensor) -> Tensor:
    """`torch.einsum` over whole blocks of rows, where the first operand has the rows of the result."""
    first, *rest = equation.split("->")[0].split(",")
    rows = first[0]
    if not equation.split("->")[-1].startswith(rows) or any(rows in one for one in rest):
        return torch.einsum(equation, x, *others)
    filled = F.pad(x, (0, 0) * (x.dim() - 1) + (0, -len(x) % ROWS))
    return torch.einsum(equation, filled, *others)[: len(x)]


def _solve_triangular(matrix: Tensor, right: Tensor, **options: bool) -> Tensor:
    """`torch.linalg.solve_triangular` over whole blocks of columns."""
    columns = right.shape[-1]
    filled = F.pad(right, (0, -columns % ROWS))
    solved: Tensor = torch.linalg.solve_triangular(matrix, filled, **options)
    return solved[..., :columns]


def _attention(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    """Attention; a single query, such as [CLS] in the last block, is asked `ROWS` times."""
    attend = F.scaled_dot_product_attention
    if q.shape[-2] != 1 or options.get("is_causal"):
        return attend(q, k, v, **options)
    return attend(q.expand(*q.shape[:-2], ROWS, q.shape[-1]), k, v, **options)[..., :1, :]


def _by_element(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """An element-wise function over whole vectors of elements in a row."""

    def apply(x: Tensor) -> Tensor:
        """Fill up with ones, apply, cut off."""
        flat = x.reshape(-1)
        filled = F.pad(flat, (0, -len(flat) % ELEMENTS), value=1.0)
        return function(filled)[: len(flat)].view(x.shape)

    return apply


_IN_BLOCKS: dict[Callable[..., Any], Callable[..., Any]] = {
    F.linear: _linear,
    torch.addmm: _addmm,
    torch.einsum: _einsum,
    F.scaled_dot_product_attention: _attention,
    torch.linalg.solve_triangular: _solve_triangular,
    **dict.fromkeys((torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__), _matmul),
    **dict.fromkeys((torch.mm, torch.Tensor.mm), _matmul),
    **dict.fromkeys((torch.sigmoid, torch.Tensor.sigmoid), _by_element(torch.sigmoid)),
    **dict.fromkeys((torch.exp, torch.Tensor.exp), _by_element(torch.exp)),
    **dict.fromkeys((torch.log, torch.Tensor.log), _by_element(torch.log)),
    F.logsigmoid: _by_element(F.logsigmoid),
}
