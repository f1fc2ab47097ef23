"""Would a fixed cut-off do as well as the one that follows each image's [CLS] scores?"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dpw.analysis.subject import Subject, spread_rows
from dpw.data.task import Task
from dpw.evaluation import Evaluator, task_test_split
from dpw.functional import transfer_avg_last
from dpw.learner import make_accelerator
from dpw.memory import FeatureMemory
from dpw.methods.dpw import DPW, DPWAdaptation
from dpw.methods.statistics import RunningScores

CUTOFFS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)


@dataclass(frozen=True)
class CutoffComparison:
    """Transfer (None with a single task) and Last in percent for each fixed cut-off and the dynamic one."""

    cutoffs: list[float]
    transfer: list[float | None]
    last: list[float]
    dynamic_transfer: float | None
    dynamic_last: float
    images: int


class FixedCutoffAdaptation(DPWAdaptation):
    """DPW whose filter uses one number wherever it would use its own cut-off."""

    fixed: float = 0.0

    def cutoff(self, block: int, scores: Tensor) -> Tensor | None:
        """The fixed number for every image below the gate."""
        if super().cutoff(block, scores) is None or self.filtered is None:
            return None
        return self.fixed * self.filtered.to(scores.dtype).view(-1, 1, 1, 1)


class FixedCutoffDPW(DPW):
    """A learned DPW that answers with a fixed cut-off; nothing is trained again."""

    fixed: float = 0.0

    def image_adaptation(
        self, index: int, weight: Tensor | None, filtered: Tensor | None, scores: RunningScores | None = None
    ) -> DPWAdaptation:
        """Images by the fixed cut-off."""
        return self._fix(super().image_adaptation(index, weight, filtered, scores), self.down_image)

    def text_adaptation(self, index: int, weight: Tensor | None, filtered: Tensor | None) -> DPWAdaptation:
        """Texts by the fixed cut-off."""
        return self._fix(super().text_adaptation(index, weight, filtered), self.down_text)

    def _fix(self, own: DPWAdaptation, down: Tensor | None) -> DPWAdaptation:
        """The same adaptation with another cut-off."""
        assert down is not None
        other = FixedCutoffAdaptation(own.tower, down, own.config, own.sample_weight, own.filtered)
        other.fixed = self.fixed
        return other


def cutoff_comparison(subject: Subject, cutoffs: Sequence[float] = CUTOFFS) -> CutoffComparison:
    """Measure the whole accuracy matrix again for each cut-off, on at most `subject.images` images a task."""
    tasks = [_shortened(task, subject.images) for task in subject.tasks]
    transfer, last = [], []
    for value in cutoffs:
        fixed = FixedCutoffDPW(subject.method.backbone, subject.method.config)
        fixed.fixed = value
        each = _transfer_last(subject, fixed, tasks)
        transfer.append(each[0])
        last.append(each[1])
    own = type(subject.method)(subject.method.backbone, subject.method.config)
    dynamic = _transfer_last(subject, own, tasks)
    return CutoffComparison(
        list(cutoffs), transfer, last, *dynamic, images=sum(len(t.test or ()) for t in tasks)
    )


def _shortened(task: Task, images: int) -> Task:
    """The task with fewer test images."""
    split = task_test_split(task)
    return replace(task, test=split.select(spread_rows(len(split), images)))


def _transfer_last(subject: Subject, method: DPW, tasks: Sequence[Task]) -> tuple[float | None, float]:
    """Give an empty method one learned task after the other, measuring all test sets each time."""
    evaluator = Evaluator(subject.cache, make_accelerator(), subject.setting, subject.merge_equal_names)
    method.load_shared_state(subject.method.shared_state())
    method.feature_memory = FeatureMemory()
    method.to(subject.method.backbone.device).eval()
    matrix = []
    for index, task in enumerate(subject.method.tasks):
        method.load_task(task, subject.method.task_state(index))
        matrix.append([test.accuracy or 0.0 for test in evaluator.row(method, tasks)])
    found = transfer_avg_last(torch.tensor(matrix, dtype=torch.float64))
    return (found.mean_transfer if len(matrix) > 1 else None), found.mean_last
