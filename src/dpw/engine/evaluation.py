"""Fill one row of the accuracy matrix: every test set, after one more task was learned."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dpw.data.images import Images
from dpw.data.pixels import PixelCache
from dpw.data.prompts import readable
from dpw.data.protocol import Setting
from dpw.data.split import Split
from dpw.data.task import Task
from dpw.engine.callbacks import never
from dpw.engine.devices import agreed
from dpw.engine.feeding import SplitImages
from dpw.errors import InputError, Interrupted
from dpw.methods.base import LearnedTask, Method
from dpw.methods.candidates import Candidates, ClassGroup
from dpw.methods.trial import refusing_unfit

ABSENT = -1  # in place of an index: the class is no candidate
TIE = 1e-5  # relative difference below which two logits are equal


@dataclass(frozen=True)
class TestResult:
    """How one test set went."""

    __test__ = False  # not a test case, whatever its name

    accuracy: float | None
    images: int
    routed: list[int] | None = None  # images sent to each learned task

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"accuracy": self.accuracy, "images": self.images, "routed": self.routed}


@dataclass
class Evaluator:
    """Evaluates a method on test sets in one setting; batches never mix test sets."""

    cache: PixelCache
    accelerator: Any
    setting: Setting = "task-incremental"
    merge_equal_names: bool = False
    batch_size: int = 256
    should_stop: Callable[[], bool] = never

    def row(self, method: Method, tasks: Sequence[Task]) -> list[TestResult]:
        """Accuracy on every test set; learned ones by the setting's class list, others by their own.

        Across domains all are asked among the classes of all tasks, learned or not.
        """
        method.eval()
        domains = self.domains(tasks)
        return [self.test(method, task, domains) for task in tasks]

    def domains(self, tasks: Sequence[Task]) -> list[ClassGroup]:
        """The groups of all tasks, among which every image is asked across domains; else none."""
        return [own_group(task) for task in tasks] if self.setting == "cross-domain" else []

    def test(self, method: Method, task: Task, domains: Sequence[ClassGroup] = ()) -> TestResult:
        """Accuracy on one test set; `domains` are the groups of all tasks in the cross-domain setting."""
        split = task_test_split(task)
        learned = task.name in method.task_names
        if not learned and not method.zero_shot:
            return TestResult(None, len(split))
        question = self.question(method, task, domains)
        names, targets = [name for _, name in question.classes], _targets(task, question)
        correct, routed = 0, torch.zeros(len(method.tasks), dtype=torch.long)
        alone = self.accelerator.num_processes == 1  # others would wait for the counts of one that stops
        if agreed(self.accelerator, self.should_stop()):
            raise Interrupted(f"stopped before measuring {task.name}")
        for rows, images in self.batches(split):
            if alone and self.should_stop():
                raise Interrupted(f"stopped while measuring {task.name}")
            labels = [split.labels[row] for row in rows]
            right = torch.tensor([ABSENT if targets[label] is None else targets[label] for label in labels])
            predicted = settle(logits_of(method, images, question), right, names)
            correct += self._count(predicted, labels, task, question, names)
            routed += route_counts(method, images)
        totals = self._gathered(torch.tensor([correct, *routed.tolist()]))
        counts = totals[1:] if method.routes and method.tasks else None
        return TestResult(100 * totals[0] / len(split), len(split), counts)

    def batches(self, split: Split) -> list[tuple[list[int], Images]]:
        """This process's share of a test set, in whole batches."""
        source = SplitImages(split, self.cache, self.accelerator.device)
        starts = list(range(0, len(split), self.batch_size))
        rows = [list(range(start, min(start + self.batch_size, len(split)))) for start in starts]
        with self.accelerator.split_between_processes(rows) as own:
            return [(batch, source.images(batch)) for batch in own]

    def question(self, method: Method, task: Task, domains: Sequence[ClassGroup] = ()) -> Candidates:
        """Between which classes a test set is asked."""
        if self.setting == "cross-domain" and method.zero_shot:
            return Candidates.across(domains)
        if self.setting == "task-incremental" or task.name not in method.task_names:
            return Candidates.among(own_group(task))
        return Candidates.learned([learned.group() for learned in method.tasks])

    def _count(
        self, predicted: Tensor, labels: list[int], task: Task, question: Candidates, names: list[str]
    ) -> int:
        """How many predictions are right; equal names of different tasks may count as one class."""
        pairs = zip(predicted.tolist(), labels, strict=True)
        if self.merge_equal_names:
            return sum(readable(names[guess]) == readable(task.classes[label]) for guess, label in pairs)
        targets = _targets(task, question)
        return sum(guess == targets[label] for guess, label in pairs)

    def _gathered(self, counts: Tensor) -> list[int]:
        """The sum of counts over all processes."""
        total = self.accelerator.reduce(counts.to(self.accelerator.device), reduction="sum")
        return [int(value) for value in total.tolist()]


def _targets(task: Task, question: Candidates) -> list[int | None]:
    """Where each class of a test set stands among the candidates, by its name; None where it does not."""
    own = [(index, name) for index, (group, name) in enumerate(question.classes) if group == task.name]
    where = {readable(name): index for index, name in own}
    return [where.get(readable(name)) for name in task.classes]


def own_group(task: Task) -> ClassGroup:
    """A task's own classes, with the templates its protocol uses at test time."""
    return LearnedTask(task.name, task.classes, task.templates, task.protocol).group()


def task_test_split(task: Task) -> Split:
    """The test images, which a benchmark cannot do without."""
    if task.test is None or not len(task.test):
        raise InputError(f"task {task.name} has no test images: add a test split to measure it")
    return task.test


def logits_of(method: Method, images: Images, candidates: Candidates) -> Tensor:
    """Logits `(B, C)` of every candidate, on the host."""
    with torch.inference_mode(), refusing_unfit(method):
        return method.logits(images, candidates).float().cpu()


def settle(logits: Tensor, right: Tensor, names: Sequence[str]) -> Tensor:
    """Index of the best candidate for every image; a tie between equal names goes to the right one.

    Some methods have one entry for each class name, so that the equal names of two tasks always tie. Which of
    them comes first says nothing about the method, so such a tie is no error. Logits tie that differ by no
    more than float32 rounds off.
    """
    best, guess = logits.max(dim=1)
    known = torch.where(right == ABSENT, guess, right)
    own = logits.gather(1, known[:, None])[:, 0]
    tied = best - own <= TIE * best.abs()
    same = torch.tensor([readable(names[g]) == readable(names[r]) for g, r in zip(guess, known, strict=True)])
    return torch.where(tied & same, known, guess)


def route_counts(method: Method, images: Images) -> Tensor:
    """How many images were sent to each learned task."""
    with torch.inference_mode():
        route = method.route(images)
    if route is None:
        return torch.zeros(len(method.tasks), dtype=torch.long)
    return torch.bincount(route.task.cpu(), minlength=len(method.tasks))
