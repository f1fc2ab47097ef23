"""Features of images and texts: plain CLIP's, or those of one learned task."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dpw.data.image_like import image_batches
from dpw.data.pixels import PixelCache, read_images
from dpw.errors import InputError
from dpw.methods.base import Method
from dpw.methods.candidates import ClassGroup
from dpw.methods.parts.switched import SwitchedAnswers
from dpw.methods.parts.weighted import WeightedAnswers

BATCH = 64


def image_features(method: Method, cache: PixelCache, images: Iterable[Any], task: str | None) -> Tensor:
    """Normalised features `(N, E)` on the CPU; an image that cannot be read is an error."""
    found = []
    for names, chosen in image_batches(images, BATCH):
        pixels, errors = read_images(cache, chosen, names)
        if errors:
            raise errors[min(errors)]
        found.append(_of_images(method, torch.from_numpy(pixels).to(method.backbone.device), task))
    return _joined(method, found)


def text_features(method: Method, texts: Sequence[str], task: str | None) -> Tensor:
    """Normalised features `(N, E)` on the CPU, the texts taken as whole prompts."""
    starts = range(0, len(texts), BATCH)
    return _joined(method, [_of_texts(method, texts[start : start + BATCH], task) for start in starts])


def _of_images(method: Method, pixels: Tensor, task: str | None) -> Tensor:
    """Features of one batch; a task acts with full weight, as when it was learned."""
    method.eval()
    with torch.inference_mode():
        if task is None:
            return method.frozen_image_features(pixels)
        index, answers = method.index_of(task), method.answers
        if isinstance(answers, WeightedAnswers):
            adaptation = answers.image_adaptation(index, None, None)
            return F.normalize(method.backbone.encode_images(pixels, adaptation), dim=-1)
        if isinstance(answers, SwitchedAnswers):
            return answers.image_features(index, pixels)
    raise _no_features_of(method, task)


def _of_texts(method: Method, texts: Sequence[str], task: str | None) -> Tensor:
    """Features of some texts; a task acts with full weight, as when it was learned."""
    method.eval()
    with torch.inference_mode():
        backbone, adaptation = method.backbone, None
        if task is not None:
            index, answers = method.index_of(task), method.answers
            if isinstance(answers, SwitchedAnswers):
                return answers.encode_group(index, ClassGroup("given", tuple(texts), ("{}",)))
            if not isinstance(answers, WeightedAnswers):
                raise _no_features_of(method, task)
            adaptation = answers.text_adaptation(index, None, None)
        return F.normalize(backbone.encode_texts(backbone.tokenize(texts), adaptation), dim=-1)


def _joined(method: Method, parts: Sequence[Tensor]) -> Tensor:
    """All batches as one tensor, which may be empty."""
    if not parts:
        return torch.empty(0, method.backbone.feature_width)
    return torch.cat([part.float().cpu() for part in parts])


def _no_features_of(method: Method, task: str) -> InputError:
    """Explain that a method has nothing of this task's own."""
    return InputError(
        f"method {method.name!r} keeps no features of {task!r} apart from the others; leave task out for "
        "plain CLIP's"
    )
