"""Class-incremental answers that never tie: cosine times weight, compared by sign and log-magnitude."""

import torch
from torch import Tensor

CLEAR = 1e-30  # a best product above it can be compared as it is, in float32 too
STEP = 1e-30  # between ranks that stand in for logits: too small to move a probability


def weighted_logits(cosines: Tensor, log_weight: Tensor, scale: Tensor) -> Tensor:
    """Logits scale · cosine · weight `(B, C)` in the order of exact arithmetic.

    log_weight `(B, C)` is the logarithm of the weights in float64. Where the best product of an image is too
    small for a number, its logits are next to zero, as they would be exactly, and still in the exact order.
    """
    product = cosines * log_weight.exp().to(cosines)
    # The short way asks for a value, for which an accelerator would have to be waited for.
    if product.is_cpu and bool((product.amax(dim=1) >= CLEAR).all()):
        return scale * product
    return ranked_logits(cosines, log_weight, scale)


def ranked_logits(cosines: Tensor, log_weight: Tensor, scale: Tensor) -> Tensor:
    """The same without the short way for a batch in which all is clear."""
    product = cosines * log_weight.exp().to(cosines)
    clear = product.amax(dim=1, keepdim=True) >= CLEAR
    order = exact_key(cosines, log_weight).argsort(dim=1, descending=True, stable=True)
    ranks = order.argsort(dim=1).to(product)
    return torch.where(clear, scale * product, -STEP * ranks)


def exact_key(cosines: Tensor, log_weight: Tensor) -> Tensor:
    """Numbers `(B, C)`, float64, in the order that exact arithmetic gives cosine · exp(log_weight).

    Positive products come first by descending log-magnitude, then zeros, then negative ones by ascending
    log-magnitude: sign / (1 + largest − magnitude), between −1 and 1.
    """
    cosines = cosines.double()
    magnitude = cosines.abs().log() + log_weight.to(cosines)
    largest = magnitude.amax(dim=1, keepdim=True)
    below = torch.where(magnitude.isinf(), torch.inf, largest - magnitude)
    return cosines.sign() / (1 + below)
