"""How text towers are entered and left: causal ones, bidirectional ones, and those with norms behind."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from dpw.clip.post_norm import PostNormBlock
from dpw.clip.sequences import Positions

OLD_END = 2  # old configurations give this end of text and mean "the largest id", as transformers reads them
Rows = Sequence[Sequence[int]]  # the token ids of some prompts


class TextSide(Protocol):
    """The two ends of a text tower; `clip` is the transformers model."""

    causal: bool  # whether a token sees only what stands before it
    starts: int  # tokens before the first word, which stand for the whole prompt where nothing else does
    lowers: bool  # whether the tower was trained on lower case only

    def blocks(self, clip: Any) -> list[Any]:
        """The blocks in order."""
        ...

    def context(self, clip: Any) -> int:
        """How many tokens the tower reads."""
        ...

    def embed(self, clip: Any, tokens: Tensor) -> Tensor:
        """Token ids as vectors, without positions."""
        ...

    def place(self, clip: Any, h: Tensor, positions: Positions) -> Tensor:
        """Vectors with their positions, as the first block gets them."""
        ...

    def mask(self, clip: Any, tokens: Tensor) -> Tensor | None:
        """True for tokens `(C, N)` that others may look at; None where they may look at all."""
        ...

    def read(self, clip: Any, tokens: Tensor) -> Tensor:
        """The position `(C,)` at which the feature of each prompt is read."""
        ...

    def project(self, clip: Any, h: Tensor) -> Tensor:
        """Features of the tokens that are read."""
        ...

    def width(self, clip: Any) -> int:
        """Width of a feature."""
        ...

    def padded(self, clip: Any, rows: Rows, tokenizer: Any) -> list[list[int]]:
        """Prompts of one length."""
        ...

    def settings(self, clip: Any) -> dict[str, Any]:
        """What decides a feature beside the weights and the towers' sizes."""
        ...

    def missing_token(self, clip: Any, row: Sequence[int], tokenizer: Any) -> str | None:
        """What a tokenised prompt lacks of what the tower needs, in a few words."""
        ...


class _PreNormTexts:
    """What the text towers of CLIP and SigLIP share: embeddings, and norms before attention and MLP."""

    def blocks(self, clip: Any) -> list[Any]:
        """Blocks with a norm before attention and MLP."""
        return list(clip.text_model.encoder.layers)

    def context(self, clip: Any) -> int:
        """As many as there are positions."""
        return int(clip.config.text_config.max_position_embeddings)

    def embed(self, clip: Any, tokens: Tensor) -> Tensor:
        """The token embedding."""
        vectors: Tensor = clip.text_model.embeddings.token_embedding(tokens)
        return vectors

    def place(self, clip: Any, h: Tensor, positions: Positions) -> Tensor:
        """Positions are added."""
        places: Tensor = clip.text_model.embeddings.position_embedding.weight[positions]
        return h + places

    def mask(self, clip: Any, tokens: Tensor) -> Tensor | None:  # noqa: ARG002
        """Nothing has to be hidden: padding is never asked, or is meant to be seen."""
        return None


class CausalTexts(_PreNormTexts):
    """A causal tower, read at the end of text (CLIP, MetaCLIP 2)."""

    causal, starts, lowers = True, 1, False

    def __init__(self, *, old_end: bool) -> None:
        """`old_end`: whether an end of text of 2 means the largest id, as in CLIP's old configurations."""
        self.old_end = old_end

    def _largest(self, clip: Any) -> bool:
        """Whether the largest id is the end of text."""
        return self.old_end and clip.text_model.eos_token_id == OLD_END

    def read(self, clip: Any, tokens: Tensor) -> Tensor:
        """The first end of text."""
        end = clip.text_model.eos_token_id
        return tokens.argmax(dim=-1) if self._largest(clip) else (tokens == end).int().argmax(dim=-1)

    def project(self, clip: Any, h: Tensor) -> Tensor:
        """Last layer norm and projection."""
        features: Tensor = clip.text_projection(clip.text_model.final_layer_norm(h))
        return features

    def width(self, clip: Any) -> int:
        """Rows of the projection."""
        return int(clip.config.projection_dim)

    def padded(self, clip: Any, rows: Rows, tokenizer: Any) -> list[list[int]]:  # noqa: ARG002
        """Ends of text up to the longest prompt; nothing looks at them."""
        padding = rows[0][-1] if self._largest(clip) else clip.text_model.eos_token_id
        return _padded(rows, max(map(len, rows)), padding)

    def settings(self, clip: Any) -> dict[str, Any]:
        """The end of text."""
        largest = clip.config.text_config.vocab_size - 1
        return {"text.end": largest if self._largest(clip) else clip.text_model.eos_token_id}

    def missing_token(self, clip: Any, row: Sequence[int], tokenizer: Any) -> str | None:  # noqa: ARG002
        """A prompt has to end with the end of text."""
        end = max(row, default=-1) if self._largest(clip) else clip.text_model.eos_token_id
        return None if row and row[-1] == end else f"its prompts do not end with the end of text, id {end}"


class LastTokenTexts(_PreNormTexts):
    """A bidirectional tower over prompts padded to its whole length, read at their last token (SigLIP).

    Padding is seen like any other token, because the tower was trained so.
    """

    causal, starts, lowers = False, 0, True

    def read(self, clip: Any, tokens: Tensor) -> Tensor:  # noqa: ARG002
        """The last token, which may be padding."""
        return torch.full((len(tokens),), tokens.shape[1] - 1, device=tokens.device)

    def project(self, clip: Any, h: Tensor) -> Tensor:
        """Last layer norm and head."""
        features: Tensor = clip.text_model.head(clip.text_model.final_layer_norm(h))
        return features

    def width(self, clip: Any) -> int:
        """Rows of the head."""
        return int(clip.config.text_config.projection_size)

    def padded(self, clip: Any, rows: Rows, tokenizer: Any) -> list[list[int]]:
        """The tokeniser's padding up to the whole length."""
        return _padded(rows, self.context(clip), int(tokenizer.pad_token_id))

    def settings(self, clip: Any) -> dict[str, Any]:  # noqa: ARG002
        """Nothing more."""
        return {}

    def missing_token(self, clip: Any, row: Sequence[int], tokenizer: Any) -> str | None:  # noqa: ARG002
        """Prompts have to be padded."""
        return None if getattr(tokenizer, "pad_token_id", None) is not None else "it has no padding token"


class FirstTokenTexts:
    """A bidirectional BERT, read at its first token (Chinese-CLIP, AltCLIP); its norms stand behind."""

    causal, starts, lowers = False, 1, False

    def __init__(self, *, inner: str, offset: bool) -> None:
        """`inner`: where the BERT lies in the text model; `offset`: whether positions begin after padding's.

        RoBERTa's first position is the one after the id of its padding.
        """
        self.inner, self.offset = inner, offset

    def _bert(self, clip: Any) -> Any:
        """The BERT itself."""
        return clip.text_model.get_submodule(self.inner)

    def _first(self, clip: Any) -> int:
        """The position of the first token."""
        return int(clip.config.text_config.pad_token_id) + 1 if self.offset else 0

    def blocks(self, clip: Any) -> list[Any]:
        """Blocks with a norm behind attention and MLP."""
        encoder = self._bert(clip).encoder
        layers = encoder.layers if hasattr(encoder, "layers") else encoder.layer
        return [PostNormBlock(layer) for layer in layers]

    def context(self, clip: Any) -> int:
        """As many as there are positions from the first one on."""
        return int(clip.config.text_config.max_position_embeddings) - self._first(clip)

    def embed(self, clip: Any, tokens: Tensor) -> Tensor:
        """The word embedding."""
        vectors: Tensor = self._bert(clip).embeddings.word_embeddings(tokens)
        return vectors

    def place(self, clip: Any, h: Tensor, positions: Positions) -> Tensor:
        """Sort of token (there is one) and positions are added, and the sum is normed."""
        embeddings = self._bert(clip).embeddings
        places = embeddings.position_embeddings.weight[self._first(clip) :][positions]
        normed: Tensor = embeddings.LayerNorm(h + embeddings.token_type_embeddings.weight[0] + places)
        return normed

    def mask(self, clip: Any, tokens: Tensor) -> Tensor | None:
        """All but padding."""
        return tokens != int(clip.config.text_config.pad_token_id)

    def read(self, clip: Any, tokens: Tensor) -> Tensor:  # noqa: ARG002
        """The first token."""
        return torch.zeros(len(tokens), dtype=torch.long, device=tokens.device)

    def project(self, clip: Any, h: Tensor) -> Tensor:
        """The projection, after AltCLIP's own norm and map where there are any."""
        text = clip.text_model
        if hasattr(text, "transformation"):
            h = text.transformation(text.pre_LN(h))
        features: Tensor = clip.text_projection(h)
        return features

    def width(self, clip: Any) -> int:
        """Rows of the projection."""
        return int(clip.config.projection_dim)

    def padded(self, clip: Any, rows: Rows, tokenizer: Any) -> list[list[int]]:  # noqa: ARG002
        """Padding up to the longest prompt; nothing looks at it."""
        return _padded(rows, max(map(len, rows)), int(clip.config.text_config.pad_token_id))

    def settings(self, clip: Any) -> dict[str, Any]:
        """The padding, which is not looked at."""
        return {"text.pad": clip.config.text_config.pad_token_id}

    def missing_token(self, clip: Any, row: Sequence[int], tokenizer: Any) -> str | None:
        """A prompt has to begin with the token that is read, and padding has to be what the tower skips."""
        first, padding = getattr(tokenizer, "cls_token_id", None), getattr(tokenizer, "pad_token_id", None)
        if first is None or not row or row[0] != first:
            return "its prompts do not begin with a class token"
        own = clip.config.text_config.pad_token_id
        return None if padding == own else f"its padding is {padding}, but the tower skips {own}"


def _padded(rows: Rows, length: int, padding: int) -> list[list[int]]:
    """Rows filled up with padding on the right."""
    return [[*row, *[padding] * (length - len(row))] for row in rows]
