"""Frozen CLIP: loading, images and prompts in, features out; its blocks are run in `blocks.py`."""

import copy
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from dpw.clip.adaptation import Adaptation
from dpw.clip.blocks import Begun, run_blocks
from dpw.clip.families import family_of
from dpw.clip.fingerprint import decisive_settings, weights_digest
from dpw.clip.first_block import KeptFirstBlock, starts_as_plain
from dpw.clip.fitting import check_preprocessing, check_towers, in_single_precision
from dpw.clip.preprocessing import Preprocessing
from dpw.clip.pretrained import load_clip
from dpw.clip.sequences import AllTokens, PackedPrompts, Sequences, SideBySide
from dpw.errors import InputError

SIDE_BY_SIDE = 2**14  # tokens of a bidirectional text tower at once


class TowerShape(NamedTuple):
    """What a method needs to know of a tower to size its parameters."""

    blocks: int
    width: int
    heads: int
    tokens: int


class Backbone(nn.Module):
    """A CLIP of any family whose towers accept an `Adaptation`; nothing in it is learned by itself.

    `family` says what its family does differently (see `dpw.clip.families`).

    Example:
        >>> from dpw import Backbone
        >>> backbone = Backbone.from_pretrained("mini")
        >>> backbone.image_shape
        TowerShape(blocks=4, width=128, heads=4, tokens=37)
    """

    def __init__(self, clip: Any, preprocessing: Preprocessing, tokenizer: Any, reference: str = "") -> None:
        """Take a loaded `CLIPModel` or a model of another family; it is frozen, and turned into float32.

        `reference` is the name or folder it came from.
        """
        super().__init__()
        self.family = family_of(clip)
        check_towers(clip, reference)
        check_preprocessing(clip, preprocessing, reference)
        self.clip = in_single_precision(clip).requires_grad_(requires_grad=False).eval()
        self.preprocessing = preprocessing
        self.tokenizer = tokenizer
        self.reference = reference
        self.gradient_checkpointing = False
        self.first_block: KeptFirstBlock | None = None
        self._compiled: Callable[..., Tensor] | None = None
        self._fingerprint: str | None = None
        self._packed: tuple[Tensor, PackedPrompts] | None = None

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
            Features `(B, E)`, not normalised, read at the CLS token or, in a family without one, pooled from
            all patches.

        Example:
            >>> import torch
            >>> from PIL import Image
            >>> from dpw import Backbone
            >>> backbone = Backbone.from_pretrained("mini")
            >>> pixels = backbone.preprocessing.pixels(Image.new("RGB", (80, 60), "red"))
            >>> backbone.encode_images(torch.from_numpy(pixels)[None]).shape
            torch.Size([1, 128])
        """
        begun, mask, kept = None, None, self.first_block
        if kept is not None and kept.keeps_images and starts_as_plain(adaptation):
            first = self.blocks("vision")[0]
            begun = kept.images(pixels, first, lambda one: self._embedded_images(one, None)[0])
            h = begun.h
        else:
            h, mask = self._embedded_images(pixels, adaptation)
        last = self.family.images.last_block(h.shape[1], mask)
        h = self._run_tower("vision", h, adaptation, AllTokens(h.shape[1], mask), last, begun=begun)
        return self.pool_images(h)

    def encode_with_patches(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Image features `(B, E)` of plain CLIP, and its mean patch token after the last block `(B, D)`."""
        tokens = self.image_tokens(pixels)
        return self.pool_images(tokens), self.patches(tokens).mean(dim=1)

    def patches(self, tokens: Tensor) -> Tensor:
        """Of an image's tokens `(B, N, D)` the patches, without CLS where the family has one."""
        return tokens[:, self.family.images.class_tokens :]

    def image_projection(self) -> tuple[Tensor, Tensor]:
        """The weight `(E, D)` of the visual projection and the scale `(D,)` of the layer norm before it."""
        return self.family.images.linear_part(self.clip)

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
            Features `(C, E)`, not normalised, read at the end-of-text token or where the family reads them.

        Example:
            >>> from dpw import Backbone
            >>> backbone = Backbone.from_pretrained("mini")
            >>> backbone.encode_texts(backbone.tokenize(["a photo of a cat.", "a photo of a dog."])).shape
            torch.Size([2, 128])
        """
        if adaptation is None or adaptation.token_by_token:
            return self.encode_copies(tokens, 1, adaptation)[0]
        texts, read = self.family.texts, self.end_of_text(tokens)
        if texts.causal:  # what stands behind the longest end of text cannot be seen from it
            tokens = tokens[:, : int(read.max()) + 1]
        h = adaptation.tokens(texts.embed(self.clip, tokens))
        h = texts.place(self.clip, h, slice(0, h.shape[1]))
        seen = texts.mask(self.clip, tokens)
        mask = None if seen is None else seen[:, None, None, :]
        prompts = AllTokens(h.shape[1], mask, causal=texts.causal)
        h = self._run_tower("text", h, adaptation, prompts, prompts)
        return self.project_texts(h[torch.arange(len(h), device=h.device), read])

    def encode_copies(self, tokens: Tensor, copies: int, adaptation: Adaptation | None) -> Tensor:
        """Features `(copies, C, E)` of a class list, a copy for each sample of the adaptation."""
        if self.family.texts.causal:
            return self._encode_listed(self._pack(tokens), copies, adaptation)
        encoded = []
        for part in torch.split(tokens, max(1, SIDE_BY_SIDE // (copies * tokens.shape[1]))):
            listed = SideBySide(part, self.family.texts.mask(self.clip, part), self.end_of_text(part))
            encoded.append(self._encode_listed(listed, copies, adaptation))
        return torch.cat(encoded, dim=1)

    def _pack(self, tokens: Tensor) -> PackedPrompts:
        """Prompts as one sequence; the latest are kept, because packing asks the device for lengths.

        A training asks for the same tensor in every step.
        """
        kept = self._packed  # threads may ask for different prompts at the same time
        if kept is None or kept[0] is not tokens:
            with torch.inference_mode(mode=False):  # a prediction may ask first, and training later
                kept = tokens, PackedPrompts(tokens, self.end_of_text(tokens))
            self._packed = kept
        return kept[1]

    def _encode_listed(
        self, prompts: PackedPrompts | SideBySide, copies: int, adaptation: Adaptation | None
    ) -> Tensor:
        """Features of prompts that lie in one sequence."""
        texts, begun, kept = self.family.texts, None, self.first_block

        def embed() -> Tensor:
            """What goes into the first block, for one copy."""
            placed = texts.place(self.clip, texts.embed(self.clip, prompts.ids), prompts.positions)
            return placed.expand(1, -1, -1)

        if kept is not None and isinstance(prompts, PackedPrompts) and starts_as_plain(adaptation):
            begun = kept.prompts(prompts, self.blocks("text")[0], embed).copied(copies)
        h = embed().expand(copies, -1, -1) if begun is None else begun.h
        h = self._run_tower("text", h, adaptation, prompts, prompts.last_block(), begun=begun)
        return self.project_texts(h)

    def _embedded_images(self, pixels: Tensor, adaptation: Adaptation | None) -> tuple[Tensor, Tensor | None]:
        """What goes into the first block of the image tower, and who may look at whom."""
        h: Tensor = self.clip.vision_model.embeddings(self.normalized(pixels))
        mask = None
        if adaptation is not None:
            h = adaptation.tokens(h)
            mask = adaptation.mask(h)
        return self.family.images.enter(self.clip, h), mask

    def pool_images(self, tokens: Tensor) -> Tensor:
        """Features `(B, E)` from the tokens `(B, N, D)` after the last block, added ones left out."""
        return self.family.images.pool(self.clip, tokens)

    def project_images(self, h: Tensor) -> Tensor:
        """Single image tokens `(..., D)` in the shared space `(..., E)`, by the last norm and projection."""
        return self.family.images.project(self.clip, h)

    def project_texts(self, h: Tensor) -> Tensor:
        """Last layer norm and projection of end-of-text tokens into the shared space."""
        return self.family.texts.project(self.clip, h)

    def blocks(self, tower: Literal["vision", "text"]) -> list[Any]:
        """The frozen blocks of a tower, under the names of CLIP's own whatever the family."""
        if tower == "text":
            return self.family.texts.blocks(self.clip)
        return list(self.clip.vision_model.encoder.layers)

    def _run_tower(
        self,
        tower: Literal["vision", "text"],
        h: Tensor,
        adaptation: Adaptation | None,
        tokens: Sequences,
        last: Sequences,
        blocks: int | None = None,
        begun: Begun | None = None,
    ) -> Tensor:
        """The blocks of a tower, or its first ones, the very last over `last`."""
        layers = self.blocks(tower)
        checkpointing = self.gradient_checkpointing and torch.is_grad_enabled()
        run = self._compiled or run_blocks
        return run(layers[:blocks], h, adaptation, tokens, last, checkpointing, begun)

    def compile(self, **options: Any) -> None:
        """Let `torch.compile` translate both towers at their first use; options are its own."""
        self._compiled = torch.compile(run_blocks, **options)

    @contextmanager
    def keeping_first_block(self, images: int, batches: Iterable[Tensor] = ()) -> Iterator[None]:
        """Meanwhile compute once what no adaptation reaches, of prompts and of so many images if they fit.

        Images are told apart by their pixels, uint8 in main memory; `batches` gives them in a fixed order.
        """
        image, text = self.image_shape, self.text_shape
        if min(image.blocks, text.blocks) > 1:  # a first block that is also the last has another end
            self.first_block = KeptFirstBlock(images, image.tokens * image.width, batches)
        try:
            yield
        finally:
            self.first_block = None

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
        given = [prompt.lower() for prompt in prompts] if self.family.texts.lowers else list(prompts)
        try:
            rows: list[list[int]] = self.tokenizer(given, **limits)["input_ids"]
        except TypeError as error:  # what the tokenizers say of half a character
            raise InputError(f"a prompt is no text in Unicode ({given!r:.200}): rename the class") from error
        for prompt, row in zip(prompts, rows, strict=True):
            if len(row) > context:
                raise InputError(
                    f"the prompt {prompt!r:.200} has {len(row)} tokens but this CLIP reads at most "
                    f"{context}: shorten the class name or the template"
                )
        return self.padded(rows)

    def padded(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Token ids of prompts as one tensor `(C, N)`, filled up as the family does it."""
        filled = self.family.texts.padded(self.clip, rows, self.tokenizer)
        return torch.tensor(filled, dtype=torch.long, device=self.device)

    def end_of_text(self, tokens: Tensor) -> Tensor:
        """The position in every row where the feature is read: CLIP's first end-of-text token."""
        return self.family.texts.read(self.clip, tokens)

    # ---------------------------------------------------------------------------------------- what it is

    @property
    def image_shape(self) -> TowerShape:
        """Size of the image tower; tokens include CLS where the family has one."""
        config = self.clip.config.vision_config
        tokens = self.clip.vision_model.embeddings.num_positions
        return TowerShape(config.num_hidden_layers, config.hidden_size, config.num_attention_heads, tokens)

    @property
    def patch_count(self) -> int:
        """How many of the image tower's tokens are patches."""
        return self.image_shape.tokens - self.family.images.class_tokens

    @property
    def text_shape(self) -> TowerShape:
        """Size of the text tower; tokens are its context length."""
        config = self.clip.config.text_config
        tokens = self.family.texts.context(self.clip)
        return TowerShape(config.num_hidden_layers, config.hidden_size, config.num_attention_heads, tokens)

    @property
    def feature_width(self) -> int:
        """Width of the space that images and texts share."""
        return self.family.images.width(self.clip)

    @property
    def logit_scale(self) -> Tensor:
        """The factor on cosine similarities, exp of CLIP's learned temperature."""
        scale: Tensor = self.clip.logit_scale.exp()
        return scale.reshape(())

    def zero_shot_probabilities(self, logits: Tensor) -> Tensor:
        """How likely each class is `(B, C)` by the plain model's own rule, for scaled cosines.

        A softmax over the classes; in a family that was trained with sigmoids (SigLIP) each class by itself,
        σ(logit + bias), so that all of them may be unlikely.
        """
        if not self.family.sigmoid:
            return logits.softmax(dim=-1)
        return torch.sigmoid(logits + self.clip.logit_bias.to(logits))

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
        return decisive_settings(self.clip, self.family, self.preprocessing)

    def weights_fingerprint(self) -> str:
        """SHA-256 of all weights, their names, the image tower's activation and the family; computed once.

        Models saved by earlier versions name their CLIP by it.
        """
        if self._fingerprint is None:
            self._fingerprint = weights_digest(self.clip, self.family)
        return self._fingerprint

    def trainable_copy(self) -> "Backbone":
        """A second CLIP that a fine-tuning method may change; preprocessing and tokeniser are shared."""
        clip = copy.deepcopy(self.clip).requires_grad_(requires_grad=True)
        twin = Backbone(clip, self.preprocessing, self.tokenizer, self.reference)
        twin.clip.requires_grad_(requires_grad=True)
        for name in ("logit_scale", "logit_bias"):
            if hasattr(twin.clip, name):
                getattr(twin.clip, name).requires_grad_(requires_grad=False)
        return twin
