"""From a benchmark's name, or a YAML file, to tasks that load when they are needed."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from dpw.benchmarks.benchmark import Benchmark, LazyTasks, LoadedBenchmark, TaskContext, TaskSource
from dpw.benchmarks.registry import list_benchmarks
from dpw.benchmarks.sources import PublicTask
from dpw.benchmarks.yaml_file import in_order, read_benchmark
from dpw.data.protocol import get_protocol
from dpw.data.public import get_dataset
from dpw.data.shots import few_shot_task, listed_task
from dpw.data.task import Task
from dpw.errors import InputError, a_flag, a_path, a_whole_number, some_texts

YAML_SUFFIXES = (".yaml", ".yml")


def get_benchmark(name_or_yaml: str | Path) -> Benchmark:
    """Find an embedded benchmark by name, or read one from a YAML file.

    Args:
        name_or_yaml: A name such as `mtil` (see `list_benchmarks`), or the path of a `.yaml` file.

    Returns:
        The benchmark's description; no data is looked at.

    Raises:
        InputError: The name is unknown, or the file cannot be used.

    Example:
        >>> from dpw.benchmarks import get_benchmark
        >>> mtil = get_benchmark("mtil")
        >>> mtil.setting, mtil.protocol, len(mtil.tasks)
        ('task-incremental', 'coop', 11)
    """
    a_path(name_or_yaml, "the benchmark")
    if str(name_or_yaml).endswith(YAML_SUFFIXES):
        return read_benchmark(Path(name_or_yaml))
    known = {benchmark.name: benchmark for benchmark in list_benchmarks()}
    if str(name_or_yaml) not in known:
        raise InputError(
            f"benchmark {str(name_or_yaml)!r} is unknown; give a .yaml file or one of {', '.join(known)}"
        )
    return known[str(name_or_yaml)]


def load_benchmark(
    name_or_yaml: str | Path,
    *,
    data_root: Path | str | None = None,
    seed: int = 0,
    shots: int | None = None,
    protocol: str | None = None,
    order: Sequence[str] | None = None,
    rebuild_splits: bool = False,
    shot_lists: Path | str | None = None,
) -> LoadedBenchmark:
    """Prepare a benchmark; a task's files are first looked at when the task is used.

    Args:
        name_or_yaml: A name such as `mini` (see `list_benchmarks`), or the path of a `.yaml` file.
        data_root: The folder of the public datasets, for benchmarks that need them.
        seed: Decides all draws: splits, few-shot images, the rendered images of `mini`.
        shots: Training images of each class, in place of the benchmark's own choice.
        protocol: `coop` or `zscl`, in place of the benchmark's own.
        order: Names of tasks in the wanted order; fewer make a shorter benchmark.
        rebuild_splits: Make split files anew where they are missing; these are not the published splits.
        shot_lists: A folder of published few-shot lists, used for the datasets it has lists for.

    Returns:
        The benchmark with its tasks, each loaded when it is first used.

    Raises:
        InputError: The benchmark, the protocol or a task in `order` is unknown.

    Example:
        >>> from dpw.benchmarks import load_benchmark
        >>> benchmark = load_benchmark("mini", order=["signs", "flags"])
        >>> [(task.name, len(task.classes), len(task.train)) for task in benchmark.tasks]
        [('signs', 12, 384), ('flags', 12, 384)]
    """
    benchmark = get_benchmark(name_or_yaml)
    chosen = benchmark.protocol if protocol is None else protocol
    get_protocol(chosen)
    shots = benchmark.shots if shots is None else a_whole_number(shots, "shots", 1)
    root = None if data_root is None else a_path(data_root, "data_root")
    seed = a_whole_number(seed, "seed", 0)
    context = TaskContext(root, seed, chosen, a_flag(rebuild_splits, "rebuild_splits"))
    lists = None if shot_lists is None else a_path(shot_lists, "shot_lists")
    sources = _sources(benchmark, seed)
    ordered = in_order(list(sources), None if order is None else some_texts(order, "order"), benchmark.name)
    if lists is not None:
        _refuse_useless_lists(lists, ordered, shots, seed)
    loaders = [_loader(source, context, shots, lists, benchmark.refill) for source in ordered]
    tasks = LazyTasks([source.name for source in ordered], loaders)
    return LoadedBenchmark(benchmark, tasks, chosen, seed, shots)


@dataclasses.dataclass(frozen=True)
class _BuiltTask:
    """A task that a function has already made."""

    task: Task

    @property
    def name(self) -> str:
        """The task's own name."""
        return self.task.name

    def load(self, context: TaskContext) -> Task:
        """Give the task under the chosen protocol."""
        return dataclasses.replace(self.task, protocol=context.protocol)

    def sizes(self, protocol: str) -> dict[str, int | None]:  # noqa: ARG002 (the same under both)
        """Count what is there."""
        counts = {name: len(split) for name, split in self.task.splits().items()}
        return {"classes": len(self.task.classes), **counts}


def _sources(benchmark: Benchmark, seed: int) -> tuple[TaskSource, ...]:
    """The benchmark's task sources; a function is asked for its tasks now."""
    if benchmark.build is None:
        return benchmark.tasks
    return tuple(_BuiltTask(task) for task in benchmark.build(seed))


def _loader(
    source: TaskSource, context: TaskContext, shots: int | None, lists: Path | None, refill: bool
) -> Callable[[], Task]:
    """How to load one task, few-shot if wanted."""

    def load() -> Task:
        """Load and, for few-shot, draw or read the list."""
        task = source.load(context)
        if shots is None:
            return task
        drawn = few_shot_task(task, shots, context.seed, refill)
        path = None if lists is None else _list_of(source, lists, shots, context.seed)
        return drawn if path is None else listed_task(task, path, get_dataset(source.name).folder, drawn.val)

    return load


def _list_of(source: TaskSource, lists: Path, shots: int, seed: int) -> Path | None:
    """The published list of a public dataset, if the folder has one."""
    if not isinstance(source, PublicTask):
        return None
    folder = get_dataset(source.name).folder.replace("-", "")
    path = lists / folder / f"shot_{shots}-seed_{seed}.json"
    return path if path.is_file() else None


def _refuse_useless_lists(lists: Path, sources: Sequence[TaskSource], shots: int | None, seed: int) -> None:
    """Refuse a folder of published lists of which no task would use one."""
    if shots is None:
        raise InputError(f"shot lists in {lists} have no effect on all images: also give shots")
    if not any(_list_of(source, lists, shots, seed) for source in sources):
        raise InputError(
            f"{lists} has no list shot_{shots}-seed_{seed}.json for any task (in a folder such as food101): "
            "give the folder of the lists, another seed or other shots, or leave it out"
        )
