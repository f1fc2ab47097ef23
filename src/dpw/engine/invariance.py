"""Answers that do not depend, to the last bit, on which other images are in the batch.

Libraries choose their kernels by shape: a product of a few rows is summed in another order than the same rows
among hundreds, the last rows in another than the first, and the last elements of a vector are computed by
other instructions than the rest. Where the borders lie differs from one processor to the next. So every
product here is made of products of one shape: of an image's own rows where it has many, else of blocks of
`ROWS` rows, filled up with zeros. Element-wise functions get as many elements as fill whole vectors (filled
up with ones, for functions of positive numbers).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

ROWS = 48  # whole blocks of MKL's kernels: 16 rows with AVX-512, 24 with AVX2
COLUMNS = 16  # of a triangular system, whose cost grows with them
QUERIES = 8  # a single one is asked by another kernel
ELEMENTS = 32  # a multiple of every vector's length


class BatchInvariance(TorchFunctionMode):
    """Inside a `with` block of this, no image's numbers depend on the other images of its batch.

    On processors: an accelerator, which would sit idle in small products, is left to its own kernels.

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
        in_blocks = _IN_BLOCKS.get(func)
        if in_blocks is None or not all(one.is_cpu for one in args if isinstance(one, Tensor)):
            return func(*args, **(kwargs or {}))
        return in_blocks(*args, **(kwargs or {}))


def _by_rows(x: Tensor, product: Callable[[Tensor], Tensor]) -> Tensor:
    """A product of the rows of `(..., K)`, carried out for equally many rows at a time."""
    count, of_one = x.shape[:-1].numel(), x.shape[-2] if x.dim() > 2 else 0
    size = of_one if of_one >= ROWS else ROWS
    rows = x.reshape(count, x.shape[-1]).contiguous()
    blocks = torch.split(F.pad(rows, (0, 0, 0, -count % size)), size)
    found = torch.cat([product(block) for block in blocks])
    return found[:count].view(*x.shape[:-1], found.shape[1])


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`F.linear` in equal blocks of rows."""
    return _by_rows(x, lambda rows: F.linear(rows, weight, bias))


def _addmm(bias: Tensor, x: Tensor, weight: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """`torch.addmm` with a bias for all rows, in equal blocks of rows."""
    if bias.dim() != 1:
        return torch.addmm(bias, x, weight, beta=beta, alpha=alpha)
    return _by_rows(x, lambda rows: torch.addmm(bias, rows, weight, beta=beta, alpha=alpha))


def _matmul(x: Tensor, other: Tensor) -> Tensor:
    """`x @ other`; of several matrices each has its own rows, and only their layout depends on the batch."""
    if other.dim() != 2 or x.dim() == 1:
        return torch.matmul(x.contiguous(), other.contiguous())
    return _by_rows(x, lambda rows: torch.mm(rows, other))


def _einsum(equation: str, x: Tensor, *others: Tensor) -> Tensor:
    """`torch.einsum` in equal blocks of rows, where the first operand has the rows of the result."""
    first, *rest = equation.split("->")[0].split(",")
    rows = first[0]
    if not equation.split("->")[-1].startswith(rows) or any(rows in one for one in rest):
        return torch.einsum(equation, x, *others)
    size = ROWS if x.dim() == 2 else 1
    filled = F.pad(x, (0, 0) * (x.dim() - 1) + (0, -len(x) % size))
    found = [torch.einsum(equation, block, *others) for block in torch.split(filled, size)]
    return torch.cat(found)[: len(x)]


def _solve_triangular(matrix: Tensor, right: Tensor, **options: bool) -> Tensor:
    """`torch.linalg.solve_triangular` in equal blocks of columns, each of which lies in one piece."""
    columns = right.shape[-1]
    blocks = torch.split(F.pad(right, (0, -columns % COLUMNS)), COLUMNS, dim=-1)
    solved = [torch.linalg.solve_triangular(matrix, block, **options).mT for block in blocks]
    return torch.cat(solved, dim=-2)[..., :columns, :].mT


def _attention(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    """Attention; a single query, such as [CLS] in the last block, is asked `QUERIES` times."""
    attend = F.scaled_dot_product_attention
    if q.shape[-2] != 1 or options.get("is_causal"):
        return attend(q, k, v, **options)
    return attend(q.expand(*q.shape[:-2], QUERIES, q.shape[-1]), k, v, **options)[..., :1, :]


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
