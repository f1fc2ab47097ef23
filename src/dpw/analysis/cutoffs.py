"""Would a fixed cut-off do as well as the one that follows each image's [CLS] scores?"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpw.analysis.subject import Subject, spread_rows
from dpw.data.task import Task
from dpw.functional import transfer_avg_last
from dpw.learner import ContinualCLIP
from dpw.methods.feature_cache import FeatureCache

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


def cutoff_comparison(subject: Subject, cutoffs: Sequence[float] = CUTOFFS) -> CutoffComparison:
    """Measure the whole accuracy matrix again for each cut-off, on at most `subject.images` images a task."""
    tasks = [_shortened(subject, task) for task in subject.tasks]
    fixed = [_transfer_last(subject, value, tasks) for value in cutoffs]
    dynamic = _transfer_last(subject, None, tasks)
    return CutoffComparison(
        cutoffs=list(cutoffs),
        transfer=[transfer for transfer, _ in fixed],
        last=[last for _, last in fixed],
        dynamic_transfer=dynamic[0],
        dynamic_last=dynamic[1],
        images=sum(len(subject.split(task)) for task in tasks),
    )


def _shortened(subject: Subject, task: Task) -> Task:
    """The task with at most `subject.images` test images."""
    split = subject.split(task)
    return replace(task, test=split.select(spread_rows(len(split), subject.images)))


def _transfer_last(
    subject: Subject, cutoff: float | None, tasks: Sequence[Task]
) -> tuple[float | None, float]:
    """Give a method with this cut-off one learned task after the other, measuring all test sets each time."""
    config = subject.method.config.model_copy(update={"fixed_cutoff": cutoff})
    method = type(subject.method)(subject.method.backbone, config)
    method.load_shared_state(subject.method.shared_state())
    method.feature_cache = FeatureCache()
    method.to(subject.method.backbone.device).eval()
    learner, matrix = ContinualCLIP(method, subject.cache), []
    for index, task in enumerate(subject.method.tasks):
        method.load_task(task, subject.method.task_state(index))
        tests = learner.evaluate(tasks, setting=subject.setting, merge_equal_names=subject.merge_equal_names)
        matrix.append([test.accuracy or 0.0 for test in tests])
    found = transfer_avg_last(matrix)
    return (found.mean_transfer if len(matrix) > 1 else None), found.mean_last
