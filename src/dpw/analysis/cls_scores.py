"""Are [CLS] scores really Gaussian, as the cut-off assumes?"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dpw.analysis.subject import Subject
from dpw.analysis.tracing import BlockRecord, trace
from dpw.functional import MINIMUM_VARIANCE, image_scores


@dataclass(frozen=True)
class ClsScores:
    """[CLS] scores by block, each standardised by the mean and variance stored for its prefix."""

    task: str
    split: str
    standardised: list[Tensor]  # per block (n,)
    distance: list[float]  # largest gap between the scores' distribution and the Gaussian's


def cls_scores(subject: Subject, task: str, split: str = "train") -> ClsScores:
    """The scores of one learned task's images under its own parameters."""
    index = subject.method.task_names.index(subject.task(task).name)
    pixels = subject.pixels(subject.task(task), split="train" if split == "train" else "test")
    found: dict[int, list[Tensor]] = {}
    has_cls = subject.method.backbone.family.images.class_tokens > 0

    def visit(record: BlockRecord) -> None:
        """Keep the scores that stand for the whole image."""
        found.setdefault(record.block, []).append(image_scores(record.scores, has_cls).double().cpu())

    trace(subject.method, pixels, visit, task=index)
    state = subject.method.task_state(index)
    mean, var = (state[f"image.cls_{name}"].double().cpu() for name in ("mean", "var"))
    standardised = [
        ((torch.cat(found[block]) - mean[block]) / var[block].clamp(min=MINIMUM_VARIANCE).sqrt()).flatten()
        for block in sorted(found)
    ]
    return ClsScores(task, split, standardised, [gaussian_distance(scores) for scores in standardised])


def gaussian_distance(scores: Tensor) -> float:
    """The Kolmogorov–Smirnov distance of scores to the standard normal distribution."""
    ordered = scores.double().sort().values
    expected = 0.5 * (1 + torch.erf(ordered / math.sqrt(2)))
    steps = torch.arange(len(ordered) + 1, dtype=torch.float64) / len(ordered)
    above, below = (steps[1:] - expected).abs().amax(), (expected - steps[:-1]).abs().amax()
    return float(torch.maximum(above, below))
