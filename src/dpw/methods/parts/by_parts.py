"""A training loss over a few images at a time, exactly: less memory, and no slower on a processor.

Given the class texts, the loss of one image knows nothing of the others. So the image tower runs forward and
backward for a few images, keeps only the gradients, and goes on with the next; the texts' own gradient flows
once, at the end. Activations of a few images live at a time, in memory that is used again and again.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from dpw.clip.backbone import Backbone

REUSED = 2**25  # bytes; a larger tensor is new memory in every step, whose first touch costs time

# loss(pixels, labels, texts) sums over images; texts (C, E) are given.
PartLoss = Callable[[Tensor, Tensor, Tensor], Tensor]


def part_sizes(backbone: Backbone, count: int) -> list[int]:
    """Into how many images at a time a batch is cut: equal parts whose widest tensor is not too large."""
    shape = backbone.image_shape
    widest = 4 * shape.width * shape.tokens * backbone.logit_scale.element_size()
    parts = -(-count // max(1, REUSED // widest))
    return [count // parts + (part < count % parts) for part in range(parts)]


def goes_by_parts(backbone: Backbone, pixels: Tensor) -> bool:
    """Whether a training batch is cut: on a processor in full precision, where it is too large for one."""
    ready = torch.is_grad_enabled() and pixels.is_cpu and not torch.is_autocast_enabled(pixels.device.type)
    return ready and len(part_sizes(backbone, len(pixels))) > 1


def loss_by_parts(
    loss: PartLoss,
    pixels: Tensor,
    labels: Tensor,
    texts: Tensor,
    parameters: Sequence[Tensor],
    sizes: Sequence[int],
) -> Tensor:
    """The mean of a loss that sums over images; its gradients for parameters and texts are already there."""
    given = texts.detach().requires_grad_()
    wanted = [given, *parameters]
    total, gradients = pixels.new_zeros((), dtype=texts.dtype), [torch.zeros_like(one) for one in wanted]
    for some, own in zip(torch.split(pixels, list(sizes)), torch.split(labels, list(sizes)), strict=True):
        value = loss(some, own, given) / len(pixels)
        found = torch.autograd.grad(value, wanted, allow_unused=True)
        for gradient, part in zip(gradients, found, strict=True):
            if part is not None:
                gradient += part
        total += value.detach()
    ready: Tensor = _Ready.apply(total, gradients, texts, *parameters)  # type: ignore[no-untyped-call]
    return ready


class _Ready(torch.autograd.Function):
    """A value whose gradients for its inputs are known."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, gradients: list[Tensor], *inputs: Tensor) -> Tensor:  # noqa: ARG004
        """Keep the gradients."""
        ctx.gradients = gradients
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> Any:
        """Each times the gradient of what was made of the value."""
        return (None, None, *(gradient * outer[0] for gradient in ctx.gradients))
