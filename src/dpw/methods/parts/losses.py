"""Losses that several methods of the fine-tuning family share."""

from torch import Tensor
from torch.nn import functional as F


def distillation(teacher: Tensor, student: Tensor, temperature: float) -> Tensor:
    """τ² · CE(softmax(teacher/τ), student/τ), mean over rows: its least value is τ² · teacher entropy."""
    target = F.softmax(teacher / temperature, dim=-1)
    return temperature**2 * F.cross_entropy(student / temperature, target)


def symmetric_cross_entropy(similarity: Tensor, target: Tensor, smoothing: float = 0.0) -> Tensor:
    """Cross entropy over the rows plus that over the columns, with the same soft targets."""
    over_texts = F.cross_entropy(similarity, target, label_smoothing=smoothing)
    return over_texts + F.cross_entropy(similarity.T, target, label_smoothing=smoothing)
