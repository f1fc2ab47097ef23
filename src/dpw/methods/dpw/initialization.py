"""Where DPW's parameters start: orthogonal directions of CLIP's own projections."""

from typing import Any, Literal

import torch
from torch import Tensor

from dpw.clip.backbone import Backbone, TowerShape
from dpw.errors import InputError


class Initializer:
    """Starting values from the frozen projections of every block; each SVD is taken at most once."""

    def __init__(self, backbone: Backbone) -> None:
        """Only remember the backbone; nothing is computed before it is needed."""
        self._towers: dict[str, Any] = {
            "image": backbone.blocks("vision"),
            "text": backbone.blocks("text"),
        }
        self.shapes: dict[str, TowerShape] = {"image": backbone.image_shape, "text": backbone.text_shape}
        self._directions: dict[tuple[str, str], Tensor] = {}

    def layers(self, tower: str) -> Any:
        """The frozen blocks of a tower."""
        return self._towers[tower]

    def repa_weight(
        self,
        tower: str,
        heads: int,
        prefixes: int,
        source: Literal["qk_out", "qk_in"],
        own_slice: bool,
        generator: torch.Generator,
    ) -> Tensor:
        """W^G `(K, h, D, L)`: left singular vectors of the query-key product, dealt out to the heads.

        With `own_slice`, `(K, h, D/h, L)`: orthonormal columns from the generator's Gaussian noise.
        """
        shape = self.shapes[tower]
        if own_slice:
            rows = shape.width // heads
            return torch.stack(
                [orthogonal_heads(heads, rows, prefixes, generator) for _ in range(shape.blocks)]
            )
        self._refuse_too_many(tower, heads * prefixes, prefixes)
        columns = self._singular(tower, source)[:, :, : heads * prefixes]
        return columns.reshape(shape.blocks, shape.width, heads, prefixes).transpose(1, 2)

    def prefix_values(self, tower: str, prefixes: int) -> Tensor:
        """P_V `(K, L, D)`: left singular vectors of W_V at the mean length of its columns."""
        self._refuse_too_many(tower, prefixes, prefixes)
        lengths = torch.stack([_weight(layer, "v_proj").norm(dim=0).mean() for layer in self._towers[tower]])
        vectors = self._singular(tower, "value")[:, :, :prefixes].transpose(1, 2)
        return vectors * lengths.cpu()[:, None, None]

    def _refuse_too_many(self, tower: str, directions: int, prefixes: int) -> None:
        """Refuse more prefixes than the singular vectors of a tower can begin."""
        width = self.shapes[tower].width
        if directions > width:
            raise InputError(
                f"prefix_length = {prefixes} needs {directions} directions, but the {tower} tower of this "
                f"CLIP has {width}: give at most {width * prefixes // directions}"
            )

    def adapter_down(self, rank: int, source: Literal["svd", "random"], seed: int) -> dict[str, Tensor]:
        """D `(K, D, r)` of both towers: the top input directions of W_V, or a random orthonormal frame."""
        downs = {}
        for number, (tower, shape) in enumerate(self.shapes.items()):
            width = min(rank, shape.width)
            if source == "svd":
                down = self._singular(tower, "value_in")[:, :, :width]
            else:
                generator = torch.Generator().manual_seed(2 * seed + number)
                noise = torch.randn(shape.blocks, shape.width, shape.width, generator=generator)
                down = torch.linalg.qr(noise).Q[:, :, :width]
            downs[tower] = down.contiguous()
        return downs

    def adapter_up(self, tower: str, rank: int, seed: int) -> tuple[Tensor, Tensor]:
        """U `(K, r, D)` from N(0, 0.02²), the same for every task, and its bias `(K, D)` of zeros."""
        shape = self.shapes[tower]
        generator = torch.Generator().manual_seed(2 * seed + (tower == "text"))
        up = 0.02 * torch.randn(shape.blocks, min(rank, shape.width), shape.width, generator=generator)
        return up, torch.zeros(shape.blocks, shape.width)

    def _singular(self, tower: str, source: str) -> Tensor:
        """Singular vectors of one product of projections in every block, `(K, D, D)`.

        `qk_out` and `qk_in` are the left ones of W_Q W_Kᵀ and W_Qᵀ W_K in torch's (out, in) layout; `value`
        and `value_in` the left and right ones of W_V, that is of its output and input space.
        """
        if (tower, source) not in self._directions:
            if source.startswith("value"):
                pairs = [singular_vectors(_weight(layer, "v_proj")) for layer in self._towers[tower]]
                left, right = (torch.stack(vectors) for vectors in zip(*pairs, strict=True))
                self._directions |= {(tower, "value"): left, (tower, "value_in"): right}
            else:
                products = [_query_key(layer, source) for layer in self._towers[tower]]
                self._directions[tower, source] = torch.stack([singular_vectors(p)[0] for p in products])
        return self._directions[tower, source]


def possible_heads(wanted: int, width: int, prefixes: int) -> int:
    """The wanted head count, halved until it divides the width and leaves room for all prefixes."""
    heads = wanted
    while heads > 1 and (width % heads or heads * prefixes > width):
        heads //= 2
    return heads


def singular_vectors(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Left and right singular vectors as columns, signs fixed so that the largest entry is positive."""
    left, _, right = torch.linalg.svd(matrix.float().cpu())
    return _signed(left), _signed(right.T)


def _signed(vectors: Tensor) -> Tensor:
    """Turn every column so that its largest entry is positive."""
    return vectors * vectors.gather(0, vectors.abs().argmax(dim=0, keepdim=True)).sign()


def orthogonal_heads(heads: int, rows: int, prefixes: int, generator: torch.Generator) -> Tensor:
    """`(h, D/h, L)`: for every head the first columns of Q from the QR of Gaussian noise."""
    frames = [torch.linalg.qr(torch.randn(rows, rows, generator=generator)).Q for _ in range(heads)]
    return torch.stack([frame[:, :prefixes] for frame in frames])


def _query_key(layer: Any, source: str) -> Tensor:
    """W_Q W_Kᵀ, whose singular vectors lie in the output space, or W_Qᵀ W_K, whose lie in the input space."""
    query, key = _weight(layer, "q_proj"), _weight(layer, "k_proj")
    return query.T @ key if source == "qk_in" else query @ key.T


def _weight(layer: Any, name: str) -> Tensor:
    """A frozen projection weight of a block's attention."""
    weight: Tensor = getattr(layer.self_attn, name).weight.detach()
    return weight
