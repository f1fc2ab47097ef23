"""Learned tasks by what decides their bytes: a task is trained once, whatever run and order it stands in.

A store is a folder that runs may share, also over a network. `learned/KEY` holds a task in the form of an
exported one, with the lines of its training log; `measured/KEY.json` how one test set went after every task;
`unfinished/KEY` the checkpoint of a training. KEY is the SHA-256 of everything that decides the result, so
nothing in a store ever becomes wrong, and all of it may be deleted at any time.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from dpw.errors import DamagedFileError
from dpw.methods import LearnedTask, Method
from dpw.storage import files
from dpw.storage.checkpoint import refuse_differences
from dpw.storage.lock import waiting_to_write
from dpw.storage.model_folder import header, learned_task, task_json
from dpw.storage.model_json import TASK_FILE, TASK_KIND
from dpw.storage.schema import KeptContent, MeasuredContent, check_content

MEASURED_KIND = "dpw-measured"
PATIENCE = 60.0  # seconds to wait for somebody else who writes the same entry


@dataclass(frozen=True)
class KeptTask:
    """A learned task as it lies in a store: its tensors, those it shares, its log and its training time."""

    task: LearnedTask
    tensors: dict[str, Tensor]
    shared: dict[str, Tensor]
    log: str
    seconds: float

    def add_to(self, method: Method) -> None:
        """Append the task to a method as if it had just been learned."""
        own = method.shared_state()
        if not own:
            method.load_shared_state(self.shared)
        elif files.tensors_digest(own) != files.tensors_digest(self.shared):
            raise DamagedFileError(
                f"task {self.task.name!r} was learned with other shared tensors than those of the model: "
                "delete the store and learn it again"
            )
        try:
            method.load_task(self.task, self.tensors)
        except (LookupError, RuntimeError, TypeError, AttributeError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise DamagedFileError(
                f"the tensors of task {self.task.name!r} in the store do not fit method {method.name!r} "
                f"({reason}): delete the store and learn it again"
            ) from error
        method.answers.clear()


def key_of(identity: Mapping[str, Any]) -> str:
    """The name of an entry: SHA-256 of what decides it."""
    canonical = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


class TaskStore:
    """A folder of learned tasks and measurements; entries are whole or absent and never change."""

    def __init__(self, folder: Path) -> None:
        """Look at a folder, which need not exist."""
        self.folder = folder

    def has(self, key: str) -> bool:
        """Whether a task was learned."""
        return (self._learned(key) / TASK_FILE).is_file()

    def learned(self, identity: Mapping[str, Any]) -> KeptTask | None:
        """The task that was learned under exactly these conditions, or None."""
        key = key_of(identity)
        if not self.has(key):
            return None
        folder = self._learned(key)
        content = files.read_json(folder / TASK_FILE, "learned task")
        check_content(KeptContent, content, folder / TASK_FILE)
        refuse_differences(folder / TASK_FILE, content["identity"], identity, "delete this entry")
        task, shared = content["tasks"][0], content["shared"]
        return KeptTask(
            learned_task(task),
            files.read_tensors(folder, task["tensors"]),
            {} if shared is None else files.read_tensors(folder, shared),
            content["log"],
            content["seconds"],
        )

    def keep(self, identity: Mapping[str, Any], method: Method, log: str, seconds: float) -> None:
        """Commit the newest task of a method, unless somebody else did meanwhile."""
        key = key_of(identity)
        folder, shared = self._learned(key), method.shared_state()
        with waiting_to_write(folder, PATIENCE):
            if self.has(key):
                return
            entry = files.write_tensors(
                folder, method.tasks[-1].name, method.task_state(len(method.tasks) - 1)
            )
            content = {
                **header(method),
                "kind": TASK_KIND,
                "shared": files.write_tensors(folder, "shared", shared) if shared else None,
                "tasks": [{**task_json(method.tasks[-1]), "tensors": entry}],
                "identity": dict(identity),
                "log": log,
                "seconds": seconds,
            }
            entries = [entry, *([content["shared"]] if shared else [])]
            files.commit(folder / TASK_FILE, content, entries, [])

    def unfinished(self, key: str) -> Path:
        """Where the checkpoint of a training lies."""
        return self.folder / "unfinished" / key

    def measured(self, identity: Mapping[str, Any]) -> list[dict[str, Any]]:
        """How a test set went for plain CLIP and after every task, as far as it was measured."""
        path = self._measured(key_of(identity))
        if not path.is_file():
            return []
        content = files.read_json(path, "measurement")
        check_content(MeasuredContent, content, path)
        refuse_differences(path, content["identity"], identity, "delete this file")
        return list(content["tests"])

    def keep_measured(self, identity: Mapping[str, Any], tests: Sequence[Mapping[str, Any]]) -> None:
        """Commit how a test set went so far."""
        content = {"format": files.FORMAT, "kind": MEASURED_KIND, "identity": dict(identity)}
        files.write_json(self._measured(key_of(identity)), {**content, "tests": list(tests)})

    def _learned(self, key: str) -> Path:
        """The folder of a learned task."""
        return self.folder / "learned" / key

    def _measured(self, key: str) -> Path:
        """The file of one test set."""
        return self.folder / "measured" / f"{key}.json"
