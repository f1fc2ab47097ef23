"""Frozen CLIP: loading, images and prompts in, features out; its blocks are run in `blocks.py`."""

import copy
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from dpw.clip.adaptation import Adaptation
from dpw.clip.blocks import run_blocks
from dpw.clip.preprocessing import Preprocessing
from dpw.clip.pretrained import load_clip
from dpw.clip.sequences import AllTokens, FirstToken, PackedPrompts, Sequences
from dpw.errors import InputError

OLD_END = 2  # old configurations give this end of text and mean "the largest id", as transformers reads them
# Fields of a tower's configuration that change its output and cannot be read off the weights.
DECISIVE = ("hidden_act", "num_attention_heads", "layer_norm_eps")


class TowerShape(NamedTuple):
    """What a method needs to know of a tower to size its parameters."""

    blocks: int
    width: int
    heads: int
    tokens: int


class Backbone(nn.Module):
    """A transformers `CLIPModel` whose towers accept an `Adaptation`; nothing in it is learned by itself.

    Example:
        >>> from dpw import Backbone
        >>> backbone = Backbone.from_pretrained("mini")
        >>> backbone.image_shape
        TowerShape(blocks=4, width=128, heads=4, tokens=37)
    """

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
    def from_pretrained(cls, name_or_folder: str | Path, *, allow_download: bool = True) -> "Backbone":
        """Load any CLIP checkpoint.

        Args:
            name_or_folder: `mini` (embedded), a folder with a checkpoint (the network is never touched), or
                a hub name such as `openai/clip-vit-base-patch16` (fetched, or taken from the hub's cache).
            allow_download: Whether a hub name may be fetched; otherwise only the hub's cache is looked at.

        Returns:
            The backbone on the CPU, frozen and in evaluation mode.

        Raises:
            InputError: There is no such model, or its files are incomplete, damaged or no CLIP.

        Example:
            >>> from dpw import Backbone
            >>> Backbone.from_pretrained("mini").feature_width
            128
        """
        clip, preprocessing, tokenizer = load_clip(str(name_or_folder), allow_download)
        return cls(clip, preprocessing, tokenizer, reference=str(name_or_folder))

    # ------------------------------------------------------------------------------------- the two towers

    def encode_images(self, pixels: Tensor, adaptation: Adaptation | None = None) -> Tensor:
        """Encode images with the image tower.

        Args:
            pixels: `(B, 3, H, W)`; uint8 as `preprocessing.pixels` gives them, or floating and normalised.
            adaptation: What a method adds in this pass; None is plain CLIP.

        Returns:
            Features `(B, E)`, not normalised, read at the CLS token.

        Example:
            >>> import torch
            >>> from PIL import Image
            >>> from dpw import Backbone
            >>> backbone = Backbone.from_pretrained("mini")
            >>> pixels = backbone.preprocessing.pixels(Image.new("RGB", (80, 60), "red"))
            >>> backbone.encode_images(torch.from_numpy(pixels)[None]).shape
            torch.Size([1, 128])
        """
        h, mask = self._embedded_images(pixels, adaptation)
        last = FirstToken(mask)
        h = self._run_tower("vision", h, adaptation, AllTokens(h.shape[1], mask), last)
        return self.project_images(h[:, 0])

    def encode_with_patches(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Image features `(B, E)` of plain CLIP, and its mean patch token after the last block `(B, D)`."""
        tokens = self.image_tokens(pixels)
        return self.project_images(tokens[:, 0]), tokens[:, 1:].mean(dim=1)

    def image_projection(self) -> tuple[Tensor, Tensor]:
        """The weight `(E, D)` of the visual projection and the scale `(D,)` of the layer norm before it."""
        return self.clip.visual_projection.weight, self.clip.vision_model.post_layernorm.weight

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
        """Encode prompts with the text tower.

        Args:
            tokens: Token ids `(C, N)` as `tokenize` gives them.
            adaptation: What a method adds in this pass; None is plain CLIP.

        Returns:
            Features `(C, E)`, not normalised, read at the end-of-text token.

        Example:
            >>> from dpw import Backbone
            >>> backbone = Backbone.from_pretrained("mini")
            >>> backbone.encode_texts(backbone.tokenize(["a photo of a cat.", "a photo of a dog."])).shape
            torch.Size([2, 128])
        """
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
        padding = rows[0][-1] if end == OLD_END else end
        padded = [row + [padding] * (longest - len(row)) for row in rows]
        return torch.tensor(padded, dtype=torch.long, device=self.device)

    def end_of_text(self, tokens: Tensor) -> Tensor:
        """Position of the first end-of-text token of every row."""
        end = self.clip.text_model.eos_token_id
        return tokens.argmax(dim=-1) if end == OLD_END else (tokens == end).int().argmax(dim=-1)

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
        """SHA-256 of everything that decides a feature: the weights, and the settings beside them."""
        settings = json.dumps(self.settings(), sort_keys=True)
        return hashlib.sha256(f"{self.weights_fingerprint()} {settings}".encode()).hexdigest()

    def settings(self) -> dict[str, Any]:
        """What decides a feature beside the weights: of both towers, of the texts and of the pixels."""
        config = self.clip.config
        towers = {"image": config.vision_config, "text": config.text_config}
        found = {
            f"{tower}.{name}": getattr(part, name) for tower, part in towers.items() for name in DECISIVE
        }
        end = self.clip.text_model.eos_token_id
        found["text.end"] = config.text_config.vocab_size - 1 if end == OLD_END else end
        return {**found, "preprocessing": self.preprocessing.to_config()}

    def weights_fingerprint(self) -> str:
        """SHA-256 of all weights, their names and the activation of the image tower; computed once.

        Models saved by earlier versions name their CLIP by it.
        """
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
