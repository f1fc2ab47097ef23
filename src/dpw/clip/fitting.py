"""Whether the parts of a CLIP fit each other: weights, preprocessing, tokeniser and configuration."""

from typing import Any

import torch
from torch import Tensor

from dpw.clip.families import family_of
from dpw.clip.preprocessing import Preprocessing
from dpw.errors import InputError


def in_single_precision(clip: Any) -> Any:
    """The model in float32, in which all methods learn; weights that are no floating numbers are refused."""
    for name, tensor in clip.named_parameters():
        if not tensor.is_floating_point():
            raise InputError(
                f"the weights {name} are {tensor.dtype} (quantised?): give a CLIP with floating-point weights"
            )
    single = all(tensor.dtype == torch.float32 for tensor in clip.parameters())
    return clip if single else clip.float()


def is_finite(tensor: Tensor) -> bool:
    """Whether a floating tensor holds no NaN and no infinity, by one pass over memory.

    The extremes of numbers among which is a NaN are NaN; `isfinite` of each takes ten times as long.

    Example:
        >>> import torch
        >>> is_finite(torch.tensor([1.0, -2.0])), is_finite(torch.tensor([1.0, torch.nan, -2.0]))
        (True, False)
    """
    return tensor.numel() == 0 or bool(torch.isfinite(torch.stack(tensor.aminmax())).all())


def check_preprocessing(clip: Any, preprocessing: Preprocessing, reference: str) -> None:
    """Refuse a preprocessing that makes images of another size than the image tower takes."""
    side = int(clip.config.vision_config.image_size)
    found = preprocessing.output
    if found != (side, side):
        made = "images of no fixed size" if found is None else f"images of {found[0]}x{found[1]} pixels"
        raise InputError(
            f"the preprocessing of {reference or 'this CLIP'} makes {made}, but its image tower takes "
            f"{side}x{side}: take preprocessor_config.json from the same model"
        )


def check_tokenizer(clip: Any, tokenizer: Any, name: str) -> None:
    """Refuse a tokeniser whose tokens are not those that the text tower was trained with."""
    family, vocabulary = family_of(clip), int(clip.config.text_config.vocab_size)
    try:
        row = list(tokenizer(["a photo of a cat."])["input_ids"][0])
    except Exception as error:
        raise InputError(
            f"{name}: its tokeniser cannot read 'a photo of a cat.' ({error}): copy it again from its source"
        ) from error
    problem = family.texts.missing_token(clip, row, tokenizer)
    if problem is None and max(row, default=0) >= vocabulary:
        problem = f"it gives token {max(row)} but the text tower knows {vocabulary}"
    if problem is not None:
        raise InputError(
            f"{name}: the tokeniser does not fit this {family.title} ({problem}): copy the tokeniser of the "
            "same model"
        )


def check_towers(clip: Any, reference: str) -> None:
    """Refuse towers that do not lead into the same space."""
    config, name = clip.config, reference or "this CLIP"
    if not getattr(config.vision_config, "vision_use_head", True):
        raise InputError(f"{name}: its image tower has no pooling head, so it gives no image features")
    family = family_of(clip)
    images, texts = family.images.width(clip), family.texts.width(clip)
    if images != texts:
        raise InputError(f"{name}: images become {images} numbers and texts {texts}: take a matching pair")
