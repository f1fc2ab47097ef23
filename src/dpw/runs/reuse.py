"""What a run can take from a store of learned tasks, and which conditions decide the bytes of a result."""

import hashlib
import platform
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch

from dpw.clip.products import made_by_intel
from dpw.data.digest import task_digest
from dpw.data.task import Task
from dpw.engine.devices import process_count
from dpw.engine.evaluation import Evaluator, TestResult
from dpw.engine.training import training_identity
from dpw.methods import Method
from dpw.runs.config import RunConfig
from dpw.runs.provenance import device_name, versions
from dpw.runs.task_store import KeptTask, TaskStore, key_of
from dpw.storage.checkpoint import TrainingCheckpoint

COMPUTING = ("clip", "data", "methods", "engine", "functional.py")  # the parts of dpw that decide a number


class Reuse:
    """The store as one run sees it; only for methods that learn every task for itself."""

    def __init__(
        self,
        store: TaskStore,
        config: RunConfig,
        tasks: Sequence[Task],
        evaluator: Evaluator,
        device: torch.device,
    ) -> None:
        """Nothing is read before it is asked for."""
        self.store, self.config, self.tasks, self.evaluator = store, config, tasks, evaluator
        self.device = device
        self._identities: dict[int, dict[str, Any]] = {}
        self._columns: dict[int, dict[str, Any]] = {}

    def identity(self, method: Method, index: int) -> dict[str, Any]:
        """Everything that decides the tensors of one task, to the last bit."""
        if index not in self._identities:
            identity = training_identity(method, self.tasks[index], self.config.seed)
            identity.pop("learned")  # earlier tasks make no difference
            self._identities[index] = {
                **identity,
                "mixed precision": self.config.mixed_precision,
                "gradient accumulation": self.config.gradient_accumulation,
                "processes": process_count(),
                **machine(self.device),
                "method source": method_source(type(method)),
            }
        return self._identities[index]

    def key(self, method: Method, index: int) -> str:
        """The name of one task in the store."""
        return key_of(self.identity(method, index))

    def learned(self, method: Method, index: int) -> KeptTask | None:
        """A task as it was learned before, or None."""
        return self.store.learned(self.identity(method, index))

    def begun(self, method: Method, index: int) -> bool:
        """Whether the store holds a task half learned."""
        return TrainingCheckpoint(self.store.unfinished(self.key(method, index)), {}).exists

    def keep(self, method: Method, index: int, log: str, seconds: float) -> None:
        """Leave the newest task to other runs."""
        self.store.keep(self.identity(method, index), method, log, seconds)

    def column(self, method: Method, index: int) -> dict[str, Any]:
        """Everything that decides how one test set goes after every task."""
        if index not in self._columns:
            evaluator, every = self.evaluator, range(len(self.tasks))
            across = evaluator.setting == "cross-domain"
            self._columns[index] = {
                "learned": [self.key(method, one) for one in every],
                "tested": task_digest(self.tasks[index]),
                "setting": evaluator.setting,
                "domains": [task_digest(task) for task in self.tasks] if across else [],
                "equal names merged": evaluator.merge_equal_names,
                "batch": evaluator.batch_size,
            }
        return self._columns[index]

    def row(self, method: Method, learned: int) -> tuple[list[TestResult], float] | None:
        """Every test set after some tasks, and the seconds it took, if all of them were measured."""
        found = []
        for index in range(len(self.tasks)):
            tests = self.store.measured(self.column(method, index))
            if len(tests) <= learned:
                return None
            found.append(tests[learned])
        results = [TestResult(one["accuracy"], one["images"], one["routed"]) for one in found]
        return results, sum(one["seconds"] for one in found)


def machine(device: torch.device) -> dict[str, Any]:
    """What decides the last digits beside data and settings: processor, threads, versions, this program."""
    maker = " Intel" if made_by_intel() else ""  # MKL has kernels of their own for these
    return {
        "device": device_name(device),
        "processor": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}{maker}",
        "threads": torch.get_num_threads(),
        "versions": versions(),
        "program": program_digest(),
    }


@cache
def program_digest() -> str:
    """SHA-256 of the part of this package that computes, so that a changed program reuses nothing."""
    package = Path(__file__).parents[1]
    named = [package / name for name in COMPUTING]
    found = [path for one in named for path in ([one] if one.is_file() else sorted(one.rglob("*.py")))]
    digest = hashlib.sha256()
    for path in found:
        digest.update(f"{path.relative_to(package).as_posix()}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def method_source(kind: type[Method]) -> str:
    """SHA-256 of the files a method is written in, which may belong to another package."""
    digest = hashlib.sha256()
    for part in kind.__mro__:
        path = getattr(sys.modules.get(part.__module__), "__file__", None)
        if issubclass(part, Method) and path is not None:
            digest.update(Path(path).read_bytes())
    return digest.hexdigest()
