"""How far runs are, as their folders tell anybody who looks, from any terminal and any machine."""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dpw.errors import DpwError, InputError
from dpw.storage import model_json
from dpw.storage.checkpoint import TrainingCheckpoint
from dpw.storage.files import MAX_JSON
from dpw.storage.run_folder import CLUSTER_FILE, RunFolder
from dpw.storage.schema import ClusterContent, check_content

SILENT = 30.0  # seconds after which nobody seems to be at work any more


@dataclass(frozen=True)
class RunStatus:
    """One run: its stage, how many tasks it has learned and measured, and the time spent and left.

    Attributes:
        folder: the folder of the run.
        stage: `finished`, `learning NAME`, `measuring after NAME`, `begun` or `damaged`.
        tasks: how many tasks the run has.
        learned, measured: how many of them are learned, and after how many all test sets are measured.
        step: of the task that is being learned, as its last checkpoint says; None without one.
        seconds: time spent so far.
        left: about the time that is left, if tasks cost what they did; None before one is done.
        problem: why the run cannot be read, in one sentence; then nothing else is known of it.
    """

    folder: str
    stage: str
    tasks: int
    learned: int
    measured: int
    step: int | None
    seconds: float
    left: float | None
    problem: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def run_status(folder: Path) -> RunStatus:
    """Look at one run without touching it."""
    files = RunFolder(folder)
    content = files.read_run()
    names, rows = list(content.get("data", {})), files.read_rows()
    learned = _learned(files.model)
    checkpoint = TrainingCheckpoint(files.checkpoint, {})
    position = checkpoint.read()["position"] if checkpoint.exists else None
    seconds = sum(step.seconds for step in files.read_steps())
    stage = "begun"
    if files.finished:
        stage = "finished"
    elif len(rows) < learned:
        stage = f"measuring after {names[len(rows)]}"
    elif position is not None:
        stage = f"learning {position['task']}"
    left = 0.0 if files.finished else seconds / len(rows) * (len(names) - len(rows)) if rows else None
    step = None if position is None else int(position["step"])
    return RunStatus(str(folder), stage, len(names), learned, len(rows), step, seconds, left)


def _learned(model: Path) -> int:
    """How many tasks a model has."""
    return len(model_json.read_model(model)["tasks"]) if model_json.is_model(model) else 0


def statuses(folder: Path) -> list[RunStatus]:
    """The run in a folder, or all runs that were begun in it or in its folders."""
    if RunFolder(folder).started:
        return [run_status(folder)]
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}: give the folder of a run, or a folder of runs")
    found = RunFolder(folder).started_below()
    if not found and cluster_status(folder) is None:
        raise InputError(f"{folder} holds no run: give the folder of a run, or a folder of runs")
    return [_one_of_several(run.path) for run in found]


def _one_of_several(folder: Path) -> RunStatus:
    """The status of a run; one that is damaged says so and does not hide the others."""
    try:
        return run_status(folder)
    except DpwError as error:
        return RunStatus(str(folder), "damaged", 0, 0, 0, None, 0.0, None, str(error))


def cluster_status(folder: Path) -> Mapping[str, Any] | None:
    """What a cluster that works on a run or on the runs beside it last said, or None if none does.

    `silent` are the seconds since then, once it should have said something again.
    """
    for place in (folder, folder.parent):
        path = place / CLUSTER_FILE
        try:
            if not path.is_file() or path.stat().st_size > MAX_JSON:
                continue
            content = json.loads(path.read_text())
            check_content(ClusterContent, content, path)
        except (OSError, ValueError, TypeError, RecursionError):
            continue
        silent = time.time() - float(content["at"])
        return {**content, "silent": silent if silent > SILENT else None}
    return None
