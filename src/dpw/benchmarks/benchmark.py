"""What a benchmark is: an ordered sequence of tasks that are loaded when they are needed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, overload

from dpw.data.draws import VAL_SHOTS_AT_MOST
from dpw.data.protocol import Setting
from dpw.data.public import load_public
from dpw.data.split import Split
from dpw.data.task import Task
from dpw.errors import InputError


@dataclass
class TaskContext:
    """What the user chose for a run, which every task source needs to load its task."""

    data_root: Path | None
    seed: int
    protocol: str
    rebuild_splits: bool = False
    _loaded: dict[str, Task] = field(default_factory=dict)

    def public(self, name: str) -> Task:
        """Load a public dataset, once."""
        if self.data_root is None:
            raise InputError(
                f"{name} needs the folder of the public datasets; give data_root or set DPW_DATA"
            )
        if name not in self._loaded:
            self._loaded[name] = load_public(
                name,
                self.data_root,
                protocol=self.protocol,
                seed=self.seed,
                rebuild_splits=self.rebuild_splits,
            )
        return self._loaded[name]


class TaskSource(Protocol):
    """One task of a benchmark, before it is loaded."""

    @property
    def name(self) -> str:
        """What the task is called."""
        ...

    def load(self, context: TaskContext) -> Task:
        """Find the images."""
        ...

    def sizes(self, protocol: str) -> dict[str, int | None]:
        """The numbers of classes, train, val and test images as far as they are known beforehand."""
        ...


class Captioned(NamedTuple):
    """Pictures from outside a benchmark, with one caption each."""

    images: Split
    captions: tuple[str, ...]


@dataclass(frozen=True)
class Benchmark:
    """A named sequence; its tasks come from sources, or all at once from a function of the seed.

    `outside` gives data beyond the tasks (by the seed) to methods that look at any; only a benchmark that
    comes with everything has it. `steps` says that the tasks are one dataset in steps, for which papers
    report the accuracy over all classes seen so far.
    """

    name: str
    description: str
    setting: Setting
    protocol: str
    tasks: tuple[TaskSource, ...] = ()
    build: Callable[[int], Sequence[Task]] | None = None
    merge_equal_names: bool = False
    shots: int | None = None
    refill: bool = False  # few-shot: classes with fewer images are drawn with repetition
    steps: bool = False
    outside: Callable[[int], Captioned] | None = None

    def describe(self) -> dict[str, Any]:
        """Say what is in the benchmark, in values that JSON knows, without looking at any data."""
        sizes = [self._few_shot(source.sizes(self.protocol)) for source in self.tasks]
        return {
            "name": self.name,
            "description": self.description,
            "setting": self.setting,
            "protocol": self.protocol,
            "merge_equal_names": self.merge_equal_names,
            "shots": self.shots,
            "tasks": [{"name": source.name, **size} for source, size in zip(self.tasks, sizes, strict=True)],
            "classes": _total(sizes, "classes"),
            "train": _total(sizes, "train"),
            "test": _total(sizes, "test"),
        }

    def _few_shot(self, sizes: dict[str, int | None]) -> dict[str, int | None]:
        """The sizes that are left after a few-shot draw from datasets with enough images."""
        classes = sizes.get("classes")
        if self.shots is None or classes is None:
            return sizes
        drawn = {"train": self.shots * classes, "val": min(self.shots, VAL_SHOTS_AT_MOST) * classes}
        return sizes | {what: drawn[what] for what in drawn if sizes.get(what) is not None}


def _total(sizes: Sequence[dict[str, int | None]], what: str) -> int | None:
    """The sum over all tasks, when every summand is known."""
    values = [size.get(what) for size in sizes]
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


class LazyTasks(Sequence[Task]):
    """Tasks that are loaded at first use and then kept."""

    def __init__(self, names: Sequence[str], loaders: Sequence[Callable[[], Task]]) -> None:
        """Remember how to load each task."""
        self.names = tuple(names)
        self._loaders = tuple(loaders)
        self._tasks: dict[int, Task] = {}

    def __len__(self) -> int:
        """How many tasks there are."""
        return len(self._loaders)

    @overload
    def __getitem__(self, index: int) -> Task: ...

    @overload
    def __getitem__(self, index: slice) -> "Sequence[Task]": ...

    def __getitem__(self, index: int | slice) -> "Task | Sequence[Task]":
        """Load one task, or take a shorter sequence without loading."""
        if isinstance(index, slice):
            chosen = range(len(self))[index]
            return LazyTasks(
                [self.names[i] for i in chosen],
                [lambda number=i: self[number] for i in chosen],  # type: ignore[misc]
            )
        number = range(len(self))[index]
        if number not in self._tasks:
            self._tasks[number] = self._loaders[number]()
        return self._tasks[number]

    def __iter__(self) -> Iterator[Task]:
        """Load the tasks one after another."""
        return (self[index] for index in range(len(self)))


@dataclass(frozen=True)
class LoadedBenchmark:
    """A benchmark with its data, seed and choices; everything a result must name is here."""

    benchmark: Benchmark
    tasks: LazyTasks
    protocol: str
    seed: int
    shots: int | None

    @property
    def name(self) -> str:
        """The benchmark's name."""
        return self.benchmark.name

    @property
    def setting(self) -> Setting:
        """Among which classes an image is classified."""
        return self.benchmark.setting

    @property
    def merge_equal_names(self) -> bool:
        """Whether equally named classes of two tasks are one class."""
        return self.benchmark.merge_equal_names

    @property
    def task_names(self) -> tuple[str, ...]:
        """The names of the tasks in order, without loading any."""
        return self.tasks.names

    def describe(self) -> dict[str, Any]:
        """Say what is in it, in values that JSON knows; loads every task."""
        return {
            "name": self.name,
            "setting": self.setting,
            "protocol": self.protocol,
            "merge_equal_names": self.merge_equal_names,
            "shots": self.shots,
            "seed": self.seed,
            "tasks": [task.describe() for task in self.tasks],
        }
