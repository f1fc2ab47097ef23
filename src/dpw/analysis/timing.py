"""What each component costs at inference, on this machine."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from dpw import functional as paper
from dpw.analysis.subject import Subject
from dpw.clip.adaptation import Adaptation
from dpw.clip.sequences import Positions
from dpw.data.images import Images
from dpw.methods.dpw.method import DPW
from dpw.methods.dpw.tower import DPWAdaptation

TASK_TIME = "identifying the task\n(a plain pass included)"


@dataclass(frozen=True)
class ComponentTimes:
    """Milliseconds per image of the image tower with more and more of the method; medians."""

    names: list[str]
    milliseconds: list[float]
    images: int


class _Attention(Adaptation):
    """Prefixes by a softmax over query times key, as methods before DPW do."""

    def __init__(self, own: DPWAdaptation) -> None:
        """Take the prefix values for keys too: the cost does not depend on what they are."""
        self.own = own

    def value(self, block: int, x: Tensor, q: Tensor, positions: Positions) -> Tensor:  # noqa: ARG002
        """The residual of attention."""
        values = self.own.blocks[block][2]
        return paper.attention_residual(q, values, values)


class _RePA(Adaptation):
    """Scores by RePA, sigmoid weights, nothing else."""

    def __init__(self, own: DPWAdaptation) -> None:
        """Take the learned parameters."""
        self.own = own

    def value(self, block: int, x: Tensor, q: Tensor, positions: Positions) -> Tensor:  # noqa: ARG002
        """Prefix output without normalisation and filtering."""
        weight, bias, values = self.own.blocks[block][:3]
        return paper.prefix_output(torch.sigmoid(paper.repa_scores(x, weight, bias[:, positions])), values)


class _CondAct(_RePA):
    """RePA with conditional normalisation and filtering."""

    def value(self, block: int, x: Tensor, q: Tensor, positions: Positions) -> Tensor:  # noqa: ARG002
        """Prefix output of the filtered weights."""
        weight, bias, values = self.own.blocks[block][:3]
        scores = paper.repa_scores(x, weight, bias[:, positions])
        g, _ = paper.conditional_norm(scores)
        cutoff = self.own.cutoff(block, scores)
        return paper.prefix_output(g if cutoff is None else paper.conditional_filter(g, cutoff), values)


def component_times(subject: Subject, repeats: int = 7) -> ComponentTimes:
    """Time the image tower plain, with attention over prefixes, and with RePA, CondAct and RWM one by one."""
    method = subject.method
    pixels = subject.pixels(subject.task(method.task_names[0]), min(subject.images, 32))
    own = _full(method, pixels)
    backbone = method.backbone
    work: dict[str, Callable[[], object]] = {
        "plain CLIP": lambda: backbone.encode_images(pixels),
        "+ attention over prefixes": lambda: backbone.encode_images(pixels, _Attention(own)),
        "+ RePA": lambda: backbone.encode_images(pixels, _RePA(own)),
        "+ RePA, CondAct": lambda: backbone.encode_images(pixels, _CondAct(own)),
        "+ RePA, CondAct, RWM": lambda: backbone.encode_images(pixels, own),
        TASK_TIME: lambda: method.route(Images.of(pixels)),
    }
    measured = {name: [0.0] * repeats for name in work}
    with torch.inference_mode():
        for repeat in range(-1, repeats):  # the first round only warms up
            for name, call in work.items():
                seconds = _seconds(call)
                if repeat >= 0:
                    measured[name][repeat] = seconds
    medians = [1000 * statistics.median(values) / len(pixels) for values in measured.values()]
    return ComponentTimes(list(work), medians, len(pixels))


def _full(method: DPW, pixels: Tensor) -> DPWAdaptation:
    """The first task acting on every image with filtering, which is the dearest case."""
    weight = torch.full((len(pixels),), 0.5, device=pixels.device, dtype=method.backbone.logit_scale.dtype)
    return method.image_adaptation(0, weight, torch.ones_like(weight, dtype=torch.bool))


def _seconds(call: Callable[[], object]) -> float:
    """Wall time of one call, the device having finished."""
    began = time.perf_counter()
    call()
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()
    return time.perf_counter() - began
