"""The blocks of both towers, one after another, with every place where an adaptation acts in plain sight."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from dpw.clip.adaptation import Adaptation, LinearName
from dpw.clip.by_hand import QUICK, by_hand, projections, with_linear, with_mlp
from dpw.clip.post_norm import PostNormBlock
from dpw.clip.products import linear
from dpw.clip.sequences import Sequences

REUSED = 2**25  # bytes; a larger tensor is new memory every time, whose first touch costs more than the cut


class Begun(NamedTuple):
    """A first block until an adaptation acts on its value."""

    h: Tensor  # the stream that goes in, (B, N, D)
    q: Tensor  # its queries by head, (B, h, N, D/h)
    v: Tensor  # its attention value before the output projection, (B, N, D)

    def copied(self, count: int) -> "Begun":
        """The same for several samples, from one."""
        return Begun(*(part.expand(count, *part.shape[1:]) for part in self))


def run_blocks(
    layers: Sequence[Any],
    h: Tensor,
    adaptation: Adaptation | None,
    tokens: Sequences,
    last: Sequences,
    checkpointing: bool,
    begun: Begun | None = None,
) -> Tensor:
    """One block after another, recomputed in the backward pass if checkpointing is on.

    `begun` is the first block as far as it is known already.
    """
    for index, block in enumerate(layers):
        seen = last if index == len(layers) - 1 else tokens
        known = begun if index == 0 else None
        if checkpointing:
            h = checkpoint(run_block, block, index, h, adaptation, seen, known, use_reentrant=False)
        else:
            h = run_block(block, index, h, adaptation, seen, known)
    return h


def run_block(
    block: Any,
    index: int,
    h: Tensor,
    adaptation: Adaptation | None,
    tokens: Sequences,
    begun: Begun | None = None,
) -> Tensor:
    """One transformer block; the adaptation acts on its linear maps, keys and values, value and MLP."""
    x = block.layer_norm1(h)
    kept = tokens.keep(x)
    if begun is None:
        q, v = _attention(block.self_attn, index, x, kept, adaptation, tokens)
    else:
        q, v = begun.q, begun.v
    if adaptation is not None:
        residual = adaptation.value(index, kept, q, tokens.positions)
        v = v if residual is None else v + residual
    u = _with_value(block.self_attn.out_proj, index, tokens.keep(h), v, adaptation)
    behind = isinstance(block, PostNormBlock)
    u = block.after_attention(u) if behind else u
    h = _with_mlp(block, index, u, adaptation)
    beside = None if adaptation is None else adaptation.mlp(index, u)
    h = h if beside is None else h + beside
    return block.after_mlp(h) if behind else h


def begin_block(block: Any, h: Tensor, tokens: Sequences) -> Begun:
    """The first block of plain CLIP until an adaptation would act on its value."""
    x = block.layer_norm1(h)
    return Begun(h, *_attention(block.self_attn, 0, x, tokens.keep(x), None, tokens))


def _attention(
    attention: Any,
    index: int,
    x: Tensor,
    kept: Tensor,
    adaptation: Adaptation | None,
    tokens: Sequences,
) -> tuple[Tensor, Tensor]:
    """Query by head and attention value `(B, N, D)` before the output projection, for the kept tokens."""
    if kept is x and _written_out(x, adaptation):
        q, k, v = projections(x, attention.q_proj, attention.k_proj, attention.v_proj)
    else:
        q = _linear(attention.q_proj, index, "query", kept, adaptation)
        k = _linear(attention.k_proj, index, "key", x, adaptation)
        v = _linear(attention.v_proj, index, "value", x, adaptation)
    extra = None if adaptation is None else adaptation.keys_values(index, x)
    if extra is not None:
        k, v = (torch.cat([e.expand(len(x), -1, -1), t], dim=1) for e, t in zip(extra, (k, v), strict=True))
    q, k, v = (t.view(*t.shape[:2], attention.num_heads, -1).transpose(1, 2) for t in (q, k, v))
    return q, tokens.attend(q, k, v).transpose(1, 2).flatten(2)


def _with_value(out: nn.Linear, index: int, h: Tensor, v: Tensor, adaptation: Adaptation | None) -> Tensor:
    """The stream with the attention value behind its output projection."""
    if _written_out(v, adaptation):
        return with_linear(h, v, out)
    return h + _linear(out, index, "out", v, adaptation)


def _written_out(x: Tensor, adaptation: Adaptation | None) -> bool:
    """Whether gradients of a block's maps are written out: the pass allows it and nothing acts on them."""
    return by_hand(x) and not _changed(adaptation)


def _changed(adaptation: Adaptation | None) -> bool:
    """Whether an adaptation acts on linear maps of the block."""
    return adaptation is not None and adaptation.changes_linear_maps


def _with_mlp(block: Any, index: int, u: Tensor, adaptation: Adaptation | None) -> Tensor:
    """The stream with what the MLP adds to it, on a processor for a few images at a time."""
    if torch.compiler.is_compiling():  # a graph for any number of images cannot depend on that number
        return _with_mlp_at_once(block, index, u, adaptation)
    one = u.shape[1] * block.mlp.fc1.out_features * u.element_size()
    together = max(1, REUSED // one) if u.is_cpu else len(u)
    if together >= len(u):
        return _with_mlp_at_once(block, index, u, adaptation)
    return torch.cat([_with_mlp_at_once(block, index, part, adaptation) for part in torch.split(u, together)])


def _with_mlp_at_once(block: Any, index: int, u: Tensor, adaptation: Adaptation | None) -> Tensor:
    """The stream with what the MLP adds to it."""
    mlp, norm = block.mlp, block.layer_norm2
    plain = mlp.config.hidden_act == "quick_gelu" and isinstance(norm, nn.LayerNorm)
    if plain and _written_out(u, adaptation):
        return with_mlp(u, norm, mlp.fc1, mlp.fc2)
    x = norm(u)
    if mlp.config.hidden_act != "quick_gelu":
        hidden = mlp.activation_fn(_linear(mlp.fc1, index, "fc1", x, adaptation))
        return u + _linear(mlp.fc2, index, "fc2", hidden, adaptation)
    # CLIP's quick GELU x·σ(1.702x) is SiLU(1.702x) / 1.702; both factors go to tensors a quarter as wide.
    own = adaptation if _changed(adaptation) else None
    hidden = linear(x * QUICK, mlp.fc1.weight, mlp.fc1.bias * QUICK)
    if own is not None and (delta := own.linear(index, "fc1", x)) is not None:
        hidden = hidden + delta * QUICK
    hidden = F.silu(hidden)
    added = linear(hidden, mlp.fc2.weight, mlp.fc2.bias * QUICK)
    if own is not None and (delta := own.linear(index, "fc2", hidden / QUICK)) is not None:
        added = added + delta * QUICK
    return torch.add(u, added, alpha=1 / QUICK)


def _linear(
    module: nn.Linear, index: int, name: LinearName, x: Tensor, adaptation: Adaptation | None
) -> Tensor:
    """A linear map of the block, plus the adaptation's delta if it has one."""
    out = linear(x, module.weight, module.bias)
    delta = None if adaptation is None else adaptation.linear(index, name, x)
    return out if delta is None else out + delta
