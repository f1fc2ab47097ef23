"""Tasks of the embedded benchmarks: a public dataset, or one step of it."""

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass

from dpw.benchmarks.benchmark import TaskContext
from dpw.data.prompts import DEFAULT_TEMPLATE
from dpw.data.public import get_dataset, templates
from dpw.data.split import Split
from dpw.data.task import Task

ZSCL_CIFAR100_ORDER = (
    *(87, 0, 52, 58, 44, 91, 68, 97, 51, 15, 94, 92, 10, 72, 49, 78, 61, 14, 8, 86, 84, 96, 18, 24, 32),
    *(45, 88, 11, 4, 67, 69, 66, 77, 47, 79, 93, 29, 50, 57, 83, 17, 81, 41, 12, 37, 59, 25, 20, 80, 73),
    *(1, 28, 6, 46, 62, 82, 53, 9, 31, 75, 38, 63, 33, 74, 27, 22, 36, 3, 16, 21, 60, 19, 70, 90, 89),
    *(43, 5, 42, 65, 76, 40, 30, 23, 85, 2, 95, 56, 48, 71, 64, 98, 13, 99, 7, 34, 55, 54, 26, 35, 39),
)

X_TAIL_NAMES = {"eurosat": "{} satellite location", "mnist": 'number: "{}"'}  # all others stay as they are


@dataclass(frozen=True)
class PublicTask:
    """A whole public dataset."""

    name: str

    def load(self, context: TaskContext) -> Task:
        """Load it from the data root."""
        return context.public(self.name)

    def sizes(self, protocol: str) -> dict[str, int | None]:
        """The official figures."""
        return dataclasses.asdict(get_dataset(self.name).expected[protocol])


@dataclass(frozen=True)
class XTailTask:
    """A public dataset as X-TAIL asks about it: one template, two changed class names, no validation images.

    Splits are CoOp's, except MNIST's, which is whole.
    """

    name: str

    def load(self, context: TaskContext) -> Task:
        """Load it from the data root and rename its classes."""
        splits = dataclasses.replace(context, protocol=self._protocol(), _loaded={})
        whole = splits.public(self.name)
        names = tuple(X_TAIL_NAMES.get(self.name, "{}").replace("{}", name) for name in whole.classes)
        return dataclasses.replace(
            whole, classes=names, templates=(DEFAULT_TEMPLATE,), val=None, protocol=context.protocol
        )

    def sizes(self, protocol: str) -> dict[str, int | None]:  # noqa: ARG002 (it has its own splits)
        """The official figures."""
        return dataclasses.asdict(get_dataset(self.name).expected[self._protocol()]) | {"val": None}

    def _protocol(self) -> str:
        """Whose splits are used."""
        return "zscl" if self.name == "mnist" else "coop"


@dataclass(frozen=True)
class Cifar100Step:
    """A few classes of CIFAR100.

    Protocol `zscl` uses the published class order and prompt; `coop` shuffles the classes by the seed, as DPW
    does, and keeps the dataset's own template.
    """

    step: int
    steps: int

    @property
    def name(self) -> str:
        """Numbered from 1."""
        return f"step-{self.step + 1:02d}"

    def load(self, context: TaskContext) -> Task:
        """Take the classes of this step out of CIFAR100; labels count from 0 in every step."""
        whole = context.public("cifar100")
        size = len(whole.classes) // self.steps
        chosen = class_order(context)[self.step * size : (self.step + 1) * size]
        return Task(
            name=self.name,
            classes=tuple(whole.classes[label] for label in chosen),
            templates=templates.CIFAR100_STEPS if context.protocol == "zscl" else whole.templates,
            train=_only(whole.train, chosen),
            val=None if whole.val is None else _only(whole.val, chosen),
            test=None if whole.test is None else _only(whole.test, chosen),
            protocol=context.protocol,
        )

    def sizes(self, protocol: str) -> dict[str, int | None]:
        """The official figures, divided by the number of steps."""
        whole = dataclasses.asdict(get_dataset("cifar100").expected[protocol])
        return {what: None if count is None else count // self.steps for what, count in whole.items()}


def public_datasets(sources: Sequence[object]) -> list[str]:
    """Names of the public datasets that tasks are made of."""
    named = [one.name for one in sources if isinstance(one, PublicTask | XTailTask)]
    steps = ["cifar100"] if any(isinstance(one, Cifar100Step) for one in sources) else []
    return named + steps


def class_order(context: TaskContext) -> list[int]:
    """In which order the classes of CIFAR100 come."""
    if context.protocol == "zscl":
        return list(ZSCL_CIFAR100_ORDER)
    order = list(range(100))
    random.Random(context.seed).shuffle(order)
    return order


def _only(split: Split, chosen: list[int]) -> Split:
    """The images of some classes, with labels counted from 0 in the given order."""
    label_of = {label: index for index, label in enumerate(chosen)}
    kept = split.select([index for index, label in enumerate(split.labels) if label in label_of])
    return kept.relabelled([label_of[label] for label in kept.labels])
