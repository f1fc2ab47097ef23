"""What a CLIP is, in a few plain values, and whether its towers here equal transformers' own."""

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dpw.clip.backbone import Backbone, TowerShape
from dpw.clip.pretrained import transformers_model

EQUAL = 1e-4  # of a feature's length, from which on two ways to compute it differ
IMAGES = 2
PROMPTS = ("a photo of a cat.", "a photo of a small red house, a type of building.", "x")


@dataclass(frozen=True)
class Overview:
    """What a CLIP is.

    Attributes:
        reference: the name or folder it came from.
        family: the family's name in files, such as `clip`.
        title: the family as people call it.
        model: its class in transformers.
        image: size of the image tower; tokens include [CLS] where there is one.
        side: height and width of its images in pixels.
        patches: how many patches an image is cut into.
        has_cls: whether the image tower has a [CLS] token.
        text: size of the text tower; tokens are its context.
        causal: whether a token of a prompt sees only what stands before it.
        vocabulary: how many tokens there are.
        special: the ids of tokens around and behind a prompt, by their role.
        features: numbers of a feature.
        sigmoid: whether zero-shot probabilities are sigmoids instead of a softmax.
        scale: the factor on cosines.
        bias: what is added to a logit before a sigmoid.
        parameters: numbers of the whole model, of its image tower and of its text tower.
        megabytes: of the weights in memory.

    Example:
        >>> from dpw import Backbone
        >>> from dpw.clip.overview import overview
        >>> found = overview(Backbone.from_pretrained("mini"))
        >>> found.title, found.has_cls, found.features
        ('CLIP', True, 128)
    """

    reference: str
    family: str
    title: str
    model: str
    image: TowerShape
    side: int
    patches: int
    has_cls: bool
    text: TowerShape
    causal: bool
    vocabulary: int
    special: dict[str, int]
    features: int
    sigmoid: bool
    scale: float
    bias: float
    parameters: dict[str, int]
    megabytes: float

    def as_json(self) -> dict[str, Any]:
        """Plain values that JSON knows."""
        values = dict(self.__dict__)
        return values | {"image": self.image._asdict(), "text": self.text._asdict()}


@dataclass(frozen=True)
class SelfCheck:
    """How far features are from transformers' own, relative to their length, and how long it took."""

    image: float
    text: float
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether they are equal but for rounding."""
        return max(self.image, self.text) < EQUAL


def overview(backbone: Backbone) -> Overview:
    """Describe a CLIP.

    Example:
        >>> from dpw import Backbone
        >>> from dpw.clip.overview import overview
        >>> overview(Backbone.from_pretrained("mini")).patches
        36
    """
    clip, family = backbone.clip, backbone.family
    return Overview(
        reference=backbone.reference,
        family=family.name,
        title=family.title,
        model=family.model,
        image=backbone.image_shape,
        side=int(clip.config.vision_config.image_size),
        patches=backbone.patch_count,
        has_cls=family.images.class_tokens > 0,
        text=backbone.text_shape,
        causal=family.texts.causal,
        vocabulary=int(clip.config.text_config.vocab_size),
        special=_special_tokens(backbone.tokenizer),
        features=backbone.feature_width,
        sigmoid=family.sigmoid,
        scale=float(backbone.logit_scale),
        bias=float(clip.logit_bias) if family.sigmoid else 0.0,
        parameters={
            "all": _count(clip),
            "image": _count(clip.vision_model),
            "text": _count(clip.text_model),
        },
        megabytes=sum(tensor.numel() * tensor.element_size() for tensor in clip.parameters()) / 1e6,
    )


def _count(module: Any) -> int:
    """Numbers of a module."""
    return sum(tensor.numel() for tensor in module.parameters())


def _special_tokens(tokenizer: Any) -> dict[str, int]:
    """The ids of tokens with a role."""
    roles = {"start": "bos", "class": "cls", "end": "eos", "padding": "pad"}
    found = {role: getattr(tokenizer, f"{name}_token_id", None) for role, name in roles.items()}
    return {role: token for role, token in found.items() if token is not None}


def self_check(backbone: Backbone) -> SelfCheck:
    """Encode a few images and prompts here and by transformers; prompts together and each alone.

    Example:
        >>> from dpw import Backbone
        >>> from dpw.clip.overview import self_check
        >>> self_check(Backbone.from_pretrained("mini")).passed
        True
    """
    begun, theirs = time.perf_counter(), backbone.clip
    if not hasattr(theirs, "get_image_features"):  # weights that were read without transformers
        theirs = transformers_model(backbone.reference).to(backbone.device)
    side = int(theirs.config.vision_config.image_size)
    pixels = torch.randn(IMAGES, 3, side, side, generator=torch.Generator().manual_seed(0))
    pixels = pixels.to(backbone.device)
    with torch.inference_mode():
        image = _distance(backbone.encode_images(pixels), theirs.get_image_features(pixel_values=pixels))
        together_and_alone = [list(PROMPTS), *([prompt] for prompt in PROMPTS)]
        asked = [backbone.tokenize(prompts, truncate=True) for prompts in together_and_alone]
        texts = [(backbone.encode_texts(rows), _texts(theirs, backbone, rows)) for rows in asked]
        text = max(_distance(*pair) for pair in texts)
    return SelfCheck(image, text, time.perf_counter() - begun)


def _texts(theirs: Any, backbone: Backbone, tokens: Tensor) -> Any:
    """What transformers makes of prompts; padding is hidden where the family hides it."""
    seen = backbone.family.texts.mask(theirs, tokens)
    given = {} if seen is None else {"attention_mask": seen.long()}
    return theirs.get_text_features(input_ids=tokens, **given)


def _distance(found: Tensor, output: Any) -> float:
    """The largest difference of two features, relative to the length of transformers' own."""
    expected: Tensor = output.pooler_output
    length = torch.linalg.vector_norm(expected, dim=-1).clamp(min=1e-12)
    return float((torch.linalg.vector_norm(found - expected, dim=-1) / length).amax())
