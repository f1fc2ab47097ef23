"""Frozen CLIP: loading, prompts to tokens, and the two towers as explicit loops over their blocks."""

import copy
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from transformers.activations import QuickGELUActivation

from dpw.clip.adaptation import Adaptation, LinearName
from dpw.clip.preprocessing import Preprocessing
from dpw.clip.pretrained import load_clip
from dpw.clip.sequences import AllTokens, FirstToken, PackedPrompts, Sequences
from dpw.errors import InputError

QUICK = 1.702  # of the quick GELU
REUSED = 2**25  # bytes; a larger tensor is new memory every time, whose first touch costs more than the cut


class TowerShape(NamedTuple):
    """What a method needs to know of a tower to size its parameters."""

    blocks: int
    width: int
    heads: int
    tokens: int


class Backbone(nn.Module):
    """A transformers `CLIPModel` whose towers accept an `Adaptation`; nothing in it is learned by itself."""

    def __init__(self, clip: Any, preprocessing: Preprocessing, tokenizer: Any, reference: str = "") -> None:
        """Take a loaded `CLIPModel`; `reference` is the name or folder it came from."""
        super().__init__()
        self.clip = clip.requires_grad_(requires_grad=False).eval()
        self.preprocessing = preprocessing
        self.tokenizer = tokenizer
        self.reference = reference
        self.gradient_checkpointing = False
        self._compiled: Callable[..., Tensor] | None = None
        self._fingerprint: str | None = None

    @classmethod
    def from_pretrained(cls, name_or_folder: str | Path) -> "Backbone":
        """Load any CLIP checkpoint: `mini`, a folder (never touches the network), or a hub name (fetched)."""
        clip, preprocessing, tokenizer = load_clip(str(name_or_folder))
        return cls(clip, preprocessing, tokenizer, reference=str(name_or_folder))

    # ------------------------------------------------------------------------------------- the two towers

    def encode_images(self, pixels: Tensor, adaptation: Adaptation | None = None) -> Tensor:
        """Image features `(B, E)`, not normalised, read at the CLS token."""
        h, mask = self._embedded_images(pixels, adaptation)
        last = FirstToken(mask)
        h = self._run_tower("vision", h, adaptation, AllTokens(h.shape[1], mask), last)
        return self.project_images(h[:, 0])

    def image_tokens(
        self, pixels: Tensor, adaptation: Adaptation | None = None, blocks: int | None = None
    ) -> Tensor:
        """All tokens after the last block of the image tower, or after its first `blocks`, `(B, N, D)`.

        uint8 pixels are normalised on the way.
        """
        h, mask = self._embedded_images(pixels, adaptation)
        tokens = AllTokens(h.shape[1], mask)
        return self._run_tower("vision", h, adaptation, tokens, tokens, blocks)

    def encode_texts(self, tokens: Tensor, adaptation: Adaptation | None = None) -> Tensor:
        """Text features `(C, E)`, not normalised, read at the end-of-text token."""
        if adaptation is None or adaptation.token_by_token:
            return self.encode_copies(tokens, 1, adaptation)[0]
        end = self.end_of_text(tokens)
        # The tower is causal: what stands behind the longest end of text cannot be seen from it.
        text = self.clip.text_model
        h = adaptation.tokens(text.embeddings.token_embedding(tokens[:, : int(end.max()) + 1]))
        h = h + text.embeddings.position_embedding.weight[: h.shape[1]]
        prompts = AllTokens(h.shape[1], causal=True)
        h = self._run_tower("text", h, adaptation, prompts, prompts)
        return self.project_texts(h[torch.arange(len(h), device=h.device), end])

    def encode_copies(self, tokens: Tensor, copies: int, adaptation: Adaptation | None) -> Tensor:
        """Features `(copies, C, E)` of a class list, a copy for each sample of the adaptation."""
        packed = PackedPrompts(tokens, self.end_of_text(tokens))
        embeddings = self.clip.text_model.embeddings
        h = embeddings.token_embedding(packed.ids)
        h = h + embeddings.position_embedding.weight[packed.positions]
        h = h.expand(copies, -1, -1)
        return self.project_texts(self._run_tower("text", h, adaptation, packed, packed.last_block()))

    def _embedded_images(self, pixels: Tensor, adaptation: Adaptation | None) -> tuple[Tensor, Tensor | None]:
        """What goes into the first block of the image tower, and who may look at whom."""
        vision = self.clip.vision_model
        h: Tensor = vision.embeddings(self.normalized(pixels))
        mask = None
        if adaptation is not None:
            h = adaptation.tokens(h)
            mask = adaptation.mask(h)
        return vision.pre_layrnorm(h), mask

    def project_images(self, h: Tensor) -> Tensor:
        """Last layer norm and projection of image tokens into the shared space."""
        features: Tensor = self.clip.visual_projection(self.clip.vision_model.post_layernorm(h))
        return features

    def project_texts(self, h: Tensor) -> Tensor:
        """Last layer norm and projection of end-of-text tokens into the shared space."""
        features: Tensor = self.clip.text_projection(self.clip.text_model.final_layer_norm(h))
        return features

    def _run_tower(
        self,
        tower: Literal["vision", "text"],
        h: Tensor,
        adaptation: Adaptation | None,
        tokens: Sequences,
        last: Sequences,
        blocks: int | None = None,
    ) -> Tensor:
        """The blocks of a tower, or its first ones, the very last over `last`."""
        layers = list(getattr(self.clip, f"{tower}_model").encoder.layers)
        checkpointing = self.gradient_checkpointing and torch.is_grad_enabled()
        run = self._compiled or run_blocks
        return run(layers[:blocks], h, adaptation, tokens, last, checkpointing)

    def compile(self, **options: Any) -> None:
        """Let `torch.compile` translate both towers at their first use; options are its own."""
        self._compiled = torch.compile(run_blocks, **options)

    # ----------------------------------------------------------------------------- images and prompts in

    def normalized(self, pixels: Tensor) -> Tensor:
        """Scale and normalise uint8 pixels on their device; floating pixels are taken as they are."""
        dtype = self.clip.logit_scale.dtype
        if pixels.dtype != torch.uint8:
            return pixels.to(dtype)
        scaled = pixels.to(dtype) * (self.preprocessing.scale or 1.0)
        if self.preprocessing.mean is None or self.preprocessing.std is None:
            return scaled
        mean = scaled.new_tensor(self.preprocessing.mean).view(1, -1, 1, 1)
        std = scaled.new_tensor(self.preprocessing.std).view(1, -1, 1, 1)
        return (scaled - mean) / std

    def tokenize(self, prompts: Sequence[str], truncate: bool = False) -> Tensor:
        """Token ids `(C, N)`, N the longest; one beyond the context is an error or, on request, cut."""
        context = self.text_shape.tokens
        limits = {"truncation": True, "max_length": context} if truncate else {"truncation": False}
        rows: list[list[int]] = self.tokenizer(list(prompts), **limits)["input_ids"]
        for prompt, row in zip(prompts, rows, strict=True):
            if len(row) > context:
                raise InputError(
                    f"the prompt {prompt!r} has {len(row)} tokens but this CLIP reads at most {context}: "
                    "shorten the class name or the template"
                )
        longest = max(map(len, rows))
        end = self.clip.text_model.eos_token_id
        padding = rows[0][-1] if end == 2 else end
        padded = [row + [padding] * (longest - len(row)) for row in rows]
        return torch.tensor(padded, dtype=torch.long, device=self.device)

    def end_of_text(self, tokens: Tensor) -> Tensor:
        """Position of the first end-of-text token of every row."""
        end = self.clip.text_model.eos_token_id
        # Old configurations say 2 and mean "the largest id", as transformers itself reads them.
        return tokens.argmax(dim=-1) if end == 2 else (tokens == end).int().argmax(dim=-1)

    # ---------------------------------------------------------------------------------------- what it is

    @property
    def image_shape(self) -> TowerShape:
        """Size of the image tower; tokens include CLS."""
        config = self.clip.config.vision_config
        tokens = self.clip.vision_model.embeddings.num_positions
        return TowerShape(config.num_hidden_layers, config.hidden_size, config.num_attention_heads, tokens)

    @property
    def text_shape(self) -> TowerShape:
        """Size of the text tower; tokens are its context length."""
        config = self.clip.config.text_config
        tokens = config.max_position_embeddings
        return TowerShape(config.num_hidden_layers, config.hidden_size, config.num_attention_heads, tokens)

    @property
    def feature_width(self) -> int:
        """Width of the space that images and texts share."""
        return int(self.clip.config.projection_dim)

    @property
    def logit_scale(self) -> Tensor:
        """The factor on cosine similarities, exp of CLIP's learned temperature."""
        scale: Tensor = self.clip.logit_scale.exp()
        return scale

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        device: torch.device = self.clip.logit_scale.device
        return device

    @property
    def activation(self) -> str:
        """Activation of the MLPs; a checkpoint is refused on a backbone with another one."""
        return str(self.clip.config.vision_config.hidden_act)

    def fingerprint(self) -> str:
        """SHA-256 of all weights, their names and the activation; computed once."""
        if self._fingerprint is None:
            digest = hashlib.sha256(self.activation.encode())
            for name, tensor in sorted(self.clip.state_dict().items()):
                digest.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
                digest.update(tensor.detach().cpu().flatten().view(torch.uint8).numpy().tobytes())
            self._fingerprint = digest.hexdigest()
        return self._fingerprint

    def trainable_copy(self) -> "Backbone":
        """A second CLIP that a fine-tuning method may change; preprocessing and tokeniser are shared."""
        clip = copy.deepcopy(self.clip).requires_grad_(requires_grad=True)
        twin = Backbone(clip, self.preprocessing, self.tokenizer, self.reference)
        twin.clip.requires_grad_(requires_grad=True)
        twin.clip.logit_scale.requires_grad_(requires_grad=False)
        return twin


def run_blocks(
    layers: Sequence[Any],
    h: Tensor,
    adaptation: Adaptation | None,
    tokens: Sequences,
    last: Sequences,
    checkpointing: bool,
) -> Tensor:
    """One block after another, recomputed in the backward pass if checkpointing is on."""
    for index, block in enumerate(layers):
        seen = last if index == len(layers) - 1 else tokens
        if checkpointing:
            h = checkpoint(run_block, block, index, h, adaptation, seen, use_reentrant=False)
        else:
            h = run_block(block, index, h, adaptation, seen)
    return h


def run_block(block: Any, index: int, h: Tensor, adaptation: Adaptation | None, tokens: Sequences) -> Tensor:
    """One transformer block, with every place where an adaptation acts in plain sight."""
    x = block.layer_norm1(h)
    kept = tokens.keep(x)
    q, v = _attention(block.self_attn, index, x, kept, adaptation, tokens)
    if adaptation is not None:
        residual = adaptation.value(index, kept, q, tokens.positions)
        v = v if residual is None else v + residual
    u = tokens.keep(h) + _linear(block.self_attn.out_proj, index, "out", v, adaptation)
    h = _with_mlp(block, index, u, adaptation)
    beside = None if adaptation is None else adaptation.mlp(index, u)
    return h if beside is None else h + beside


def _attention(
    attention: Any,
    index: int,
    x: Tensor,
    kept: Tensor,
    adaptation: Adaptation | None,
    tokens: Sequences,
) -> tuple[Tensor, Tensor]:
    """Query by head and attention value `(B, N, D)` before the output projection, for the kept tokens."""
    q = _linear(attention.q_proj, index, "query", kept, adaptation)
    k = _linear(attention.k_proj, index, "key", x, adaptation)
    v = _linear(attention.v_proj, index, "value", x, adaptation)
    extra = None if adaptation is None else adaptation.keys_values(index, x)
    if extra is not None:
        k, v = (torch.cat([e.expand(len(x), -1, -1), t], dim=1) for e, t in zip(extra, (k, v), strict=True))
    q, k, v = (t.view(*t.shape[:2], attention.num_heads, -1).transpose(1, 2) for t in (q, k, v))
    return q, tokens.attend(q, k, v).transpose(1, 2).flatten(2)


def _with_mlp(block: Any, index: int, u: Tensor, adaptation: Adaptation | None) -> Tensor:
    """The stream with what the MLP adds to it, on a processor for a few images at a time."""
    one = u.shape[1] * block.mlp.fc1.out_features * u.element_size()
    together = max(1, REUSED // one) if u.is_cpu else len(u)
    if together >= len(u):
        return _with_mlp_at_once(block, index, u, adaptation)
    return torch.cat([_with_mlp_at_once(block, index, part, adaptation) for part in torch.split(u, together)])


def _with_mlp_at_once(block: Any, index: int, u: Tensor, adaptation: Adaptation | None) -> Tensor:
    """The stream with what the MLP adds to it."""
    mlp, x = block.mlp, block.layer_norm2(u)
    if not isinstance(mlp.activation_fn, QuickGELUActivation):
        hidden = mlp.activation_fn(_linear(mlp.fc1, index, "fc1", x, adaptation))
        return u + _linear(mlp.fc2, index, "fc2", hidden, adaptation)
    # CLIP's quick GELU x·σ(1.702x) is SiLU(1.702x) / 1.702; the matrix products take both factors along.
    own = adaptation if adaptation is not None and adaptation.changes_linear_maps else None
    hidden = _scaled(mlp.fc1, x, QUICK, QUICK)
    if own is not None and (delta := own.linear(index, "fc1", x)) is not None:
        hidden = hidden + delta * QUICK
    hidden = F.silu(hidden)
    added = _scaled(mlp.fc2, hidden, 1.0, QUICK)
    if own is not None and (delta := own.linear(index, "fc2", hidden / QUICK)) is not None:
        added = added + delta * QUICK
    return torch.add(u, added, alpha=1 / QUICK)


def _scaled(module: nn.Linear, x: Tensor, weight: float, bias: float) -> Tensor:
    """A linear map with a factor on its weight and one on its bias, at no cost."""
    rows = torch.addmm(module.bias, x.flatten(0, -2), module.weight.t(), beta=bias, alpha=weight)
    return rows.view(*x.shape[:-1], -1)


def _linear(
    module: nn.Module, index: int, name: LinearName, x: Tensor, adaptation: Adaptation | None
) -> Tensor:
    """A linear map of the block, plus the adaptation's delta if it has one."""
    out: Tensor = module(x)
    delta = None if adaptation is None else adaptation.linear(index, name, x)
    return out if delta is None else out + delta
