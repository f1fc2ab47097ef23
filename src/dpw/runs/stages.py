"""A run in parts that several processes can do: begin it, learn one task, measure one test set, finish.

The parts meet in a store of learned tasks. Whoever finishes the run does what `start_run` does and finds in
the store what others have learned and measured, so the run folder is that of a run by one process.
"""

import time
from pathlib import Path
from typing import Any

from dpw.engine.devices import with_threads
from dpw.engine.training import prepare_towers
from dpw.errors import InputError
from dpw.methods.feature_cache import FeatureCache
from dpw.runs.benchmark_run import BenchmarkRun
from dpw.runs.config import RunConfig, RunOptions
from dpw.runs.parts import Part, Parts
from dpw.runs.reuse import Reuse, machine
from dpw.runs.run import run_opened, stored_run
from dpw.runs.task_store import key_of
from dpw.storage.run_folder import RunFolder


def begin(config: RunConfig, folder: Path, options: RunOptions) -> Parts | None:
    """Check a run and write it down; gives its parts, or None if it is finished."""
    with run_opened(config, folder, options) as run:
        if run is None:
            return None
        threads = RunFolder(folder).read_run().get("threads")
        reuse, done = run.reuse, len(run.folder.read_rows())
        if reuse is None or run.config.trackers or done == len(run.benchmark.tasks):
            return Parts(threads)  # trackers are told in the order of one process
        method, learn, measure = run.new_method(), [], []
        for index, task in enumerate(run.benchmark.tasks):
            key = reuse.key(method, index)
            learn.append(Part(task.name, key, len(task.train), reuse.store.has(key)))
            column = reuse.column(method, index)
            measured = len(reuse.store.measured(column)) > len(run.benchmark.tasks)
            measure.append(Part(task.name, key_of(column), len(task.test or ()), measured))
        return Parts(threads, learn, measure)


def opened(folder: Path, options: RunOptions) -> BenchmarkRun:
    """A run that was begun, to do parts of it."""
    return stored_run(RunFolder(folder), options)


def learn(run: BenchmarkRun, index: int, key: str) -> None:
    """Learn one task into the store, from its beginning or from where its checkpoint stands."""
    with with_threads(run.threads):
        run.learn_apart(_same_conditions(run, index, key), index)


def finish(config: RunConfig, folder: Path, options: RunOptions, key: str = "") -> dict[str, Any]:
    """Do all that is left and write the results; `key` is the first task's where tasks are learned apart."""
    with run_opened(config, folder, options) as run:
        if run is None:
            return RunFolder(folder).checked_results()
        if key:
            _same_conditions(run, 0, key)
        return run.go()


def measure(run: BenchmarkRun, index: int, key: str) -> None:
    """Measure one test set for plain CLIP and after every task, in the order of a single process."""
    with with_threads(run.threads):
        reuse, method = _reuse(run), run.new_method()
        identity, task = reuse.column(method, index), run.benchmark.tasks[index]
        if key_of(identity) != key:
            raise _other_conditions(run, reuse)
        tests = reuse.store.measured(identity)
        method.feature_cache = FeatureCache()
        prepare_towers(method)
        domains = run.evaluator.domains(run.benchmark.tasks)
        for learned in range(len(run.benchmark.tasks) + 1):
            if learned:
                kept = reuse.learned(method, learned - 1)
                assert kept is not None, "tests are measured once all tasks are learned"
                kept.add_to(method)
            if learned < len(tests):
                continue
            began, asked = time.monotonic(), method if learned else run.plain(method.feature_cache)
            result = run.evaluator.test(asked.eval(), task, domains)
            tests.append({**result.as_json(), "seconds": time.monotonic() - began})
            reuse.store.keep_measured(identity, tests)


def _reuse(run: BenchmarkRun) -> Reuse:
    """The store of a run that can be done in parts."""
    if run.reuse is None:
        raise InputError(f"{run.folder.path} is no run whose tasks can be learned apart")
    return run.reuse


def _same_conditions(run: BenchmarkRun, index: int, key: str) -> Reuse:
    """Refuse to work under other conditions than those that were asked for, since the bytes would differ."""
    reuse = _reuse(run)
    if reuse.key(run.new_method(), index) != key:
        raise _other_conditions(run, reuse)
    return reuse


def _other_conditions(run: BenchmarkRun, reuse: Reuse) -> InputError:
    """The sentence about a worker that is not like the one that began a run."""
    return InputError(
        f"this worker ({machine(reuse.device)['processor']}) computes otherwise or sees other data than the "
        f"one that began the run in {run.folder.path}: use machines of one kind with the same versions and "
        "the same shared folders"
    )
