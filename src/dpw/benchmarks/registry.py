"""The embedded benchmarks; adding one is adding an entry."""

import importlib
from collections.abc import Callable, Sequence

from dpw.benchmarks.benchmark import Benchmark, Captioned
from dpw.benchmarks.sources import Cifar100Step, PublicTask, XTailTask
from dpw.data.protocol import Setting
from dpw.data.task import Task

ORDER_1 = (
    "aircraft",
    "caltech101",
    "cifar100",
    "dtd",
    "eurosat",
    "flowers",
    "food",
    "mnist",
    "oxfordpet",
    "stanfordcars",
    "sun397",
)
ORDER_2 = (
    "stanfordcars",
    "food",
    "mnist",
    "oxfordpet",
    "flowers",
    "sun397",
    "aircraft",
    "caltech101",
    "dtd",
    "eurosat",
    "cifar100",
)
X_TAIL_1 = tuple(name for name in ORDER_1 if name != "cifar100")
X_TAIL_2 = (
    "stanfordcars",
    "aircraft",
    "oxfordpet",
    "food",
    "sun397",
    "mnist",
    "flowers",
    "dtd",
    "caltech101",
    "eurosat",
)
DIKI_FEW_SHOT = ("aircraft", "caltech101", "cifar100", "dtd", "flowers", "food", "stanfordcars", "sun397")


def _public(names: Sequence[str]) -> tuple[PublicTask, ...]:
    """One task for each public dataset."""
    return tuple(PublicTask(name) for name in names)


def _x_tail(name: str, which: str, names: Sequence[str], shots: int | None) -> Benchmark:
    """X-TAIL: ten domains, every image classified among all 1100 classes at every step."""
    images = "all training images" if shots is None else f"{shots} images a class"
    return Benchmark(
        name,
        f"ten domains, {which} order, {images}, all classes of all domains as candidates",
        "cross-domain",
        "coop",
        tuple(XTailTask(task) for task in names),
        shots=shots,
        refill=True,
    )


def _cifar100_steps(steps: int) -> Benchmark:
    """CIFAR100 in equal steps, without task ids."""
    return Benchmark(
        name="cifar100-cil" if steps == 10 else f"cifar100-cil-{steps}",
        description=f"CIFAR100 in {steps} steps of {100 // steps} classes",
        setting="class-incremental",
        protocol="zscl",
        tasks=tuple(Cifar100Step(step, steps) for step in range(steps)),
        steps=True,
    )


def _mini_tasks(seed: int) -> Sequence[Task]:
    """Render the tasks of `mini`; the module is only imported when they are wanted."""
    tasks: Sequence[Task] = importlib.import_module("dpw.benchmarks.mini").tasks(seed)
    return tasks


def _mini_backwards(seed: int) -> Sequence[Task]:
    """The same tasks in the reverse order."""
    return _mini_tasks(seed)[::-1]


def _mini_outside(seed: int) -> Captioned:
    """Paint the reference pictures of `mini`."""
    found: Captioned = importlib.import_module("dpw.benchmarks.mini.outside").captioned(seed)
    return found


def _mini(
    name: str,
    description: str,
    setting: Setting = "task-incremental",
    build: Callable[[int], Sequence[Task]] = _mini_tasks,
) -> Benchmark:
    """The embedded benchmark in one of its forms."""
    return Benchmark(name, description, setting, "coop", build=build, outside=_mini_outside)


_ENTRIES = (
    Benchmark("mtil", "eleven domains, alphabetical order", "task-incremental", "coop", _public(ORDER_1)),
    Benchmark("mtil-order2", "eleven domains, second order", "task-incremental", "coop", _public(ORDER_2)),
    Benchmark(
        "mtil-fs",
        "eleven domains with few training images of each class",
        "task-incremental",
        "coop",
        _public(ORDER_1),
        shots=16,
    ),
    Benchmark(
        "mtil-fs-diki",
        "the eight domains of DIKI's own few-shot benchmark",
        "task-incremental",
        "coop",
        _public(DIKI_FEW_SHOT),
        shots=16,
    ),
    Benchmark(
        "odcl-cil",
        "eleven domains, seen images classified among all seen classes",
        "class-incremental",
        "coop",
        _public(ORDER_1),
    ),
    Benchmark(
        "odcl-cil-merged",
        "odcl-cil where equally named classes are one class",
        "class-incremental",
        "coop",
        _public(ORDER_1),
        merge_equal_names=True,
    ),
    _x_tail("x-tail", "alphabetical", X_TAIL_1, 16),
    _x_tail("x-tail-order2", "second", X_TAIL_2, 16),
    _x_tail("x-tail-full", "alphabetical", X_TAIL_1, None),
    _x_tail("x-tail-full-order2", "second", X_TAIL_2, None),
    _cifar100_steps(10),
    _cifar100_steps(20),
    _cifar100_steps(50),
    _mini("mini", "small rendered domains and handwritten digits, no download"),
    _mini("mini-order2", "mini in the reverse order", build=_mini_backwards),
    _mini("mini-cil", "mini, seen images classified among all seen classes", "class-incremental"),
    _mini("mini-x-tail", "mini with all classes of all domains as candidates", "cross-domain"),
)


def list_benchmarks() -> list[Benchmark]:
    """All embedded benchmarks.

    Returns:
        Their descriptions in the order in which `dpw benchmarks` shows them; no data is looked at.

    Example:
        >>> from dpw.benchmarks import list_benchmarks
        >>> [benchmark.name for benchmark in list_benchmarks()][:3]
        ['mtil', 'mtil-order2', 'mtil-fs']
    """
    return list(_ENTRIES)
