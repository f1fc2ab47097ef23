"""What the analyses look at: a learned DPW model and the tasks whose images it is shown."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from dpw.data.pixels import PixelCache, cache_folder
from dpw.data.protocol import Setting
from dpw.data.split import Split
from dpw.data.task import Task
from dpw.errors import InputError
from dpw.methods.diki import DIKI
from dpw.methods.dpw.method import DPW
from dpw.runs.opening import open_benchmark, open_method


@dataclass(frozen=True)
class Subject:
    """A model with the tasks of its benchmark; `images` bounds how many of a task an analysis sees."""

    method: DPW
    tasks: Sequence[Task]
    cache: PixelCache
    images: int = 64
    setting: Setting = "task-incremental"
    merge_equal_names: bool = False

    def task(self, name: str) -> Task:
        """One task by name."""
        for task in self.tasks:
            if task.name == name:
                return task
        known = ", ".join(task.name for task in self.tasks)
        raise InputError(f"the run has no task called {name!r}; it has: {known}")

    def split(self, task: Task, name: Literal["test", "train"] = "test") -> Split:
        """The test or training images of a task."""
        found = task.splits().get(name)
        if found is None or not len(found):
            raise InputError(f"task {task.name} has no {name} images to look at")
        return found

    def pixels(
        self, task: Task, count: int | None = None, split: Literal["test", "train"] = "test"
    ) -> Tensor:
        """uint8 pixels of images spread evenly over a split, so that every class is there."""
        chosen = self.split(task, split)
        rows = spread_rows(len(chosen), count or self.images)
        return torch.from_numpy(self.cache.pixels(chosen, rows)).to(self.method.backbone.device)

    def after(self, learned: int) -> "Subject":
        """The same model as it was when only the first tasks were learned; their tensors never change."""
        return replace(self, method=first_tasks(self.method, learned))


def spread_rows(size: int, count: int) -> list[int]:
    """At most `count` rows, evenly over `size`."""
    count = min(size, count)
    return [(2 * index + 1) * size // (2 * count) for index in range(count)]


def first_tasks(method: DPW, count: int) -> DPW:
    """A second model that shares the backbone and knows only the first tasks."""
    copy = type(method)(method.backbone, method.config)
    copy.load_shared_state(method.shared_state())
    for index in range(count):
        copy.load_task(method.tasks[index], method.task_state(index))
    return copy.eval()


def open_run(folder: str | Path, images: int = 64) -> Subject:
    """Open a finished run of `dpw` or `dpw-reduced` to look into its model.

    Args:
        folder: the folder of the run.
        images: how many images of a task an analysis sees at most.

    Returns:
        The model with the tasks of its benchmark, which every function of `dpw.analysis` takes.

    Raises:
        InputError: the run is not finished, or of a method without token weights.
        DamagedFileError: a file of the run or of its model was changed or cut off.

    Example:
        >>> import dpw, tempfile
        >>> from dpw.analysis import open_run, weight_distribution
        >>> quick = {"shots": 1, "settings": {"training.iterations": 1}}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found = dpw.run_benchmark("mini", order=["signs"], output=folder, **quick)
        ...     subject = open_run(folder, images=2)
        >>> weight_distribution(subject).tasks
        ['signs']
    """
    method, benchmark = open_method(Path(folder)), open_benchmark(Path(folder))
    if not isinstance(method, DPW):
        raise InputError(
            f"{folder} is a run of {method.name!r}; these figures look at the token weights of 'dpw' or "
            "'dpw-reduced': give a run of one of them first"
        )
    cache = PixelCache(method.backbone.preprocessing, cache_folder())
    return Subject(method, benchmark.tasks, cache, images, benchmark.setting, benchmark.merge_equal_names)


def open_prefixes(folder: Path, like: Subject) -> DIKI:
    """A method with prefix keys (DIKI) over the same CLIP, to compare score maps with."""
    method = open_method(folder, like.method.backbone)
    if not isinstance(method, DIKI):
        raise InputError(
            f"{folder} is a run of {method.name!r}, but only 'diki' has prefix keys to compare with"
        )
    return method
