"""Which tokens a block computes, where they stand, and which of them they look at.

The towers run over `AllTokens`, and over prompts packed into one sequence; their last block runs only for
the token that is read. All of them change no number: they leave out what is never read or compute once what
is equal.
"""

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

Positions = slice | Tensor  # an index into tensors that have one entry for every position


class Sequences(Protocol):
    """The tokens `(B, N, D)` of one block: those that go on, and their attention."""

    @property
    def positions(self) -> Positions:
        """Where the tokens that go on stand in their image or prompt."""
        ...

    def keep(self, tokens: Tensor) -> Tensor:
        """Of the tokens that come in, those that go on."""
        ...

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attention value `(B, h, n, d)` of the queries of those that go on, `(B, h, n, d)`."""
        ...


class AllTokens:
    """Whole images or padded prompts, a row each."""

    def __init__(self, count: int, mask: Tensor | None = None, causal: bool = False) -> None:
        """`mask` `(N, N)` is true where a token (row) may look at another (column)."""
        self.positions: Positions = slice(0, count)
        self.mask, self.causal = mask, causal

    def keep(self, tokens: Tensor) -> Tensor:
        """All."""
        return tokens

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Every token by the mask."""
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask, is_causal=self.causal)


class FirstToken:
    """The last block of an image, of which only the first token is read."""

    def __init__(self, mask: Tensor | None = None) -> None:
        """`mask` is that of the other blocks."""
        self.positions: Positions = slice(0, 1)
        self.mask = None if mask is None else mask[:1]

    def keep(self, tokens: Tensor) -> Tensor:
        """[CLS]."""
        return tokens[:, :1]

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """[CLS] looks at all tokens."""
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)


class PackedPrompts:
    """A class list as one sequence: the common beginning once, then the rest of each prompt to its end.

    In a causal tower a token depends only on what stands before it, so equal beginnings give equal tokens
    and nothing behind the end of text matters. A batch of one is the class list as it is; larger batches
    are copies of it under different weights.
    """

    def __init__(self, tokens: Tensor, end: Tensor) -> None:
        """Take token ids `(C, N)` and the position of the end of text in every row."""
        device = tokens.device
        self.shared = _common_beginning(tokens, end)
        lengths = end + 1 - self.shared
        longest = int(lengths.max())
        columns = torch.arange(longest, device=device)
        real = columns < lengths[:, None]
        self.rows = len(tokens)
        self.ids = torch.cat([tokens[0, : self.shared], tokens[:, self.shared : self.shared + longest][real]])
        self.positions: Positions = torch.cat(
            [torch.arange(self.shared, device=device), (self.shared + columns).expand_as(real)[real]]
        )
        # Where each cell of the padded rests is found in the sequence; padding repeats a token of its row.
        first = self.shared + lengths.cumsum(0) - lengths
        own = first[:, None] + torch.minimum(columns, lengths[:, None] - 1)
        begin = torch.arange(self.shared, device=device).expand(self.rows, -1)
        self.queries = own.flatten()
        self.keys = torch.cat([begin, own], dim=1).flatten()
        self.back = real.flatten().nonzero().flatten()
        self.ends = first + lengths - 1
        seen = torch.ones(longest, self.shared + longest, dtype=torch.bool, device=device)
        self.mask = seen.tril(diagonal=self.shared)

    def keep(self, tokens: Tensor) -> Tensor:
        """All."""
        return tokens

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The beginning looks at itself, the rest of a prompt at the beginning and at itself."""
        copies, heads, _, width = q.shape
        k_rows, v_rows = (_spread(t, self.keys, self.rows) for t in (k, v))
        rest = F.scaled_dot_product_attention(
            _spread(q, self.queries, self.rows), k_rows, v_rows, attn_mask=self.mask
        )
        by_cell = rest.view(copies, self.rows, heads, -1, width).transpose(2, 3).flatten(1, 2)
        rest = by_cell.index_select(1, self.back).transpose(1, 2)
        if not self.shared:
            return rest
        q, k, v = (t[:, :, : self.shared] for t in (q, k, v))
        return torch.cat([F.scaled_dot_product_attention(q, k, v, is_causal=True), rest], dim=2)

    def last_block(self) -> "EndsOfPrompts":
        """The same prompts where only their ends are read."""
        return EndsOfPrompts(self)


class EndsOfPrompts:
    """The last block of packed prompts, of which only the ends of text are read."""

    def __init__(self, packed: PackedPrompts) -> None:
        """Look up the ends of the packed prompts."""
        self.ends, self.keys, self.rows = packed.ends, packed.keys, packed.rows
        assert isinstance(packed.positions, Tensor)
        self.positions: Positions = packed.positions[packed.ends]
        columns = torch.arange(len(self.keys) // self.rows, device=self.keys.device)
        self.mask = (columns <= self.positions[:, None])[:, None, None]

    def keep(self, tokens: Tensor) -> Tensor:
        """One end for every prompt."""
        return tokens.index_select(1, self.ends)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Every end looks at its own prompt."""
        copies, heads, _, width = q.shape
        k_rows, v_rows = (_spread(t, self.keys, self.rows) for t in (k, v))
        q_rows = q.transpose(1, 2).reshape(-1, heads, 1, width)
        mask = self.mask.repeat(copies, 1, 1, 1)
        value = F.scaled_dot_product_attention(q_rows, k_rows, v_rows, attn_mask=mask)
        return value.view(copies, self.rows, heads, width).transpose(1, 2)


class SideBySide:
    """A class list of a bidirectional tower: all prompts in one sequence, each looking only at itself.

    There every token depends on all others of its prompt, so nothing is shared and nothing is left out but,
    in the last block, tokens that are not read. Batches are copies, as of `PackedPrompts`.
    """

    def __init__(self, tokens: Tensor, seen: Tensor | None, read: Tensor, *, only_read: bool = False) -> None:
        """Token ids `(C, N)`, which of them may be looked at, and the position `(C,)` that is read."""
        self.tokens, self.seen, self.read = tokens, seen, read
        self.rows, self.length = tokens.shape
        self.ids = tokens.flatten()
        columns = torch.arange(self.length, device=tokens.device)
        self.positions: Positions = read if only_read else columns.repeat(self.rows)
        first = torch.arange(self.rows, device=tokens.device) * self.length
        self.kept = first + read if only_read else None
        self.mask = None if seen is None else seen[:, None, None, :]

    def keep(self, tokens: Tensor) -> Tensor:
        """All, or one of every prompt."""
        return tokens if self.kept is None else tokens.index_select(1, self.kept)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Every prompt looks at itself."""
        copies, heads, _, width = q.shape
        q, k, v = (
            t.transpose(1, 2).reshape(copies * self.rows, -1, heads, width).transpose(1, 2) for t in (q, k, v)
        )
        mask = None if self.mask is None else self.mask.repeat(copies, 1, 1, 1)
        value = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return value.transpose(1, 2).reshape(copies, -1, heads, width).transpose(1, 2)

    def last_block(self) -> "SideBySide":
        """The same prompts where only one token of each is read."""
        return SideBySide(self.tokens, self.seen, self.read, only_read=True)


def _spread(tokens: Tensor, indices: Tensor, rows: int) -> Tensor:
    """Tokens of a sequence `(B, h, M, d)` as rows of prompts `(B · C, h, n, d)`."""
    copies, heads, _, width = tokens.shape
    by_token = tokens.transpose(1, 2).flatten(2).index_select(1, indices)
    return by_token.view(copies * rows, -1, heads, width).transpose(1, 2)


def _common_beginning(tokens: Tensor, end: Tensor) -> int:
    """How many first tokens all prompts share; every prompt keeps at least one token of its own."""
    different = (tokens != tokens[:1]).any(dim=0)
    same = int(different.int().argmax()) if bool(different.any()) else tokens.shape[1]
    return min(same, int(end.min()))
