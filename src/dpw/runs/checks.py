"""Everything about a run that can be known before anything is learned, and what must not change between."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpw.benchmarks import LoadedBenchmark
from dpw.data.digest import task_digest
from dpw.data.pixels import PixelCache, check_readable
from dpw.data.reference import ReferenceData, check_reference
from dpw.errors import InputError
from dpw.methods import Method, MethodConfig


def conditions(benchmark: LoadedBenchmark) -> dict[str, Any]:
    """What a benchmark says beside its tasks; a YAML file can change it between two sessions."""
    return {
        "name": benchmark.name,
        "setting": benchmark.setting,
        "protocol": benchmark.protocol,
        "merge_equal_names": benchmark.merge_equal_names,
        "shots": benchmark.shots,
    }


def digests(benchmark: LoadedBenchmark) -> dict[str, str]:
    """The data of every task, in order."""
    return {task.name: task_digest(task) for task in benchmark.tasks}


def refuse_changed_data(folder: Path, run: Mapping[str, Any], benchmark: LoadedBenchmark) -> None:
    """Refuse to go on with other tasks, images or labels than a run began with.

    Runs of earlier versions say nothing about their data; theirs is taken as it is.
    """
    if not run.get("data"):
        return
    before = list(run["data"])
    if before != list(benchmark.task_names):
        raise InputError(
            f"the run in {folder} began with the tasks {', '.join(before)}, but {benchmark.name} now has "
            f"{', '.join(benchmark.task_names)}: restore the benchmark, or begin a new run elsewhere"
        )
    said = conditions(benchmark)
    for key, value in (run.get("benchmark") or said).items():
        if said.get(key) != value:
            raise InputError(
                f"the run in {folder} began with {key} = {value!r}, but {benchmark.name} now says "
                f"{said.get(key)!r}: restore the benchmark, or begin a new run elsewhere"
            )
    for name, digest in digests(benchmark).items():
        if digest != run["data"][name]:
            raise InputError(
                f"images, labels, class names or templates of task {name!r} are not those that the run in "
                f"{folder} began with: restore them, or begin a new run in another folder"
            )


def refuse_other_tasks(
    folder: Path, method: Method, rows: Sequence[Mapping[str, Any]], benchmark: LoadedBenchmark
) -> None:
    """Refuse learned tasks and rows that are not those of the benchmark."""
    names = list(benchmark.task_names)
    learned = method.task_names
    fits = all(len(row["tests"]) == len(names) for row in rows) and len(rows) <= len(learned)
    if not fits or learned != names[: len(learned)]:
        raise InputError(
            f"the run in {folder} has learned {', '.join(learned) or 'nothing'} and measured {len(rows)} "
            f"row(s), which does not fit the tasks {', '.join(names)} of {benchmark.name}: restore the "
            "benchmark, or begin a new run elsewhere"
        )


def check_before_learning(
    benchmark: LoadedBenchmark,
    method: str,
    config: MethodConfig,
    reference: ReferenceData,
    cache: PixelCache,
    should_stop: Callable[[], bool],
) -> None:
    """Find unreadable images of any task and wrong reference data before the first step.

    A request to stop ends the reading; the run answers it. Of two runs side by side that share a cache one
    often reads from the end, and they meet in the middle instead of decoding the same images twice.
    """
    check_reference(config, reference, benchmark.tasks, method)
    splits = [split for task in benchmark.tasks for split in task.splits().values()]
    backwards = (zlib.crc32(method.encode()) + config.seed) % 2
    for split in reversed(splits) if backwards else splits:
        check_readable(cache, split, should_stop)
