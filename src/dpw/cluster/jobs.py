"""What a worker does: one part of a run, saying now and then how far it is."""

import hashlib
import json
import os
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dpw.engine.callbacks import TrainingCallback
from dpw.errors import DpwError, Interrupted
from dpw.runs.config import RunConfig, RunOptions

if TYPE_CHECKING:  # whoever hands jobs out needs no torch
    from dpw.runs.benchmark_run import BenchmarkRun

Kind = Literal["begin", "learn", "measure", "finish"]
STOP = "stop"  # a file of this name beside the beacons asks all workers to stop
PULSE = 1.0  # seconds between two signs of life
PATIENCE = 60.0  # seconds to wait for a worker that was given up but has not ended yet


@dataclass(frozen=True)
class Job:
    """One part of a run, with all that a process on another machine must know to do it."""

    kind: Kind
    folder: Path
    config: RunConfig
    store: Path
    beacons: Path  # a folder for the signs of life of all jobs
    threads: int = 1
    index: int = 0
    key: str = ""
    conditions: str = ""  # the key of the run's first task, under which whoever finishes must find it
    part: str = ""  # the task or test set, to show
    images: int = 0
    checkpoint_seconds: float = 30.0
    directory: Path = field(default_factory=Path.cwd)
    command: tuple[str, ...] = ()

    @property
    def beacon(self) -> Path:
        """Where the job says how far it is."""
        digest = hashlib.sha256(f"{self.kind} {self.folder} {self.key}".encode()).hexdigest()
        return self.beacons / f"{digest[:16]}.json"


@dataclass(frozen=True)
class Done:
    """What a job gave, the seconds it took, and what somebody should know."""

    value: Any
    seconds: float
    notices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Failed:
    """A job that ended in a sentence for the user, or because somebody asked to stop."""

    sentence: str
    stopped: bool = False


class Asked:
    """Whether a file that asks to stop is there; looked up once in a while."""

    def __init__(self, path: Path) -> None:
        """Nobody has asked yet."""
        self.path, self.looked, self.answer = path, 0.0, False

    def __call__(self) -> bool:
        """Look, unless that was just done."""
        if time.monotonic() - self.looked > PULSE:
            self.looked, self.answer = time.monotonic(), self.path.exists()
        return self.answer


class Beacon(TrainingCallback):
    """Signs of life in a file: who works on a job since when, and how far it is."""

    def __init__(self, path: Path) -> None:
        """Say that work has begun."""
        self.path, self.should_stop = path, Asked(path.parent / STOP)
        self.content: dict[str, Any] = {"node": socket.gethostname(), "pid": os.getpid()}
        self.content["since"] = time.time()
        self.written = 0.0
        self.write()

    def write(self) -> None:
        """Replace the file; whoever reads it sees the old or the new one."""
        self.written = time.monotonic()
        temporary = self.path.with_suffix(f".{os.getpid()}.tmp")
        with suppress(OSError):  # a sign that is missed harms nobody
            temporary.write_text(json.dumps({**self.content, "at": time.time()}))
            temporary.replace(self.path)

    def on_begin(self, task: str, steps: int, done: int) -> None:  # noqa: ARG002
        """A training begins or goes on."""
        self.content |= {"step": done, "steps": steps}
        self.write()

    def on_step(self, task: str, epoch: int, epochs: int, step: int, loss: float) -> None:  # noqa: ARG002
        """One step more."""
        self.content |= {"step": step, "loss": loss}
        if time.monotonic() - self.written > PULSE:
            self.write()

    def on_message(self, message: str) -> None:
        """What happens now."""
        self.content["message"] = message
        self.write()

    def on_notice(self, notice: str) -> None:
        """What somebody should know."""
        self.content["notices"] = [*self.content.get("notices", ()), notice]
        self.write()


def carry_out(job: Job) -> Done | Failed:
    """Do a job in this process; a sentence for the user comes back as a value, not as an exception."""
    import torch

    with suppress(OSError):
        os.chdir(job.directory)
    sys.argv = list(job.command) or sys.argv
    torch.set_num_threads(job.threads)
    job.beacons.mkdir(parents=True, exist_ok=True)
    beacon, began = Beacon(job.beacon), time.monotonic()
    options = RunOptions(
        job.checkpoint_seconds,
        beacon,
        beacon.should_stop,
        on_message=beacon.on_message,
        on_notice=beacon.on_notice,
        reuse=job.store,
        patience=PATIENCE,
    )
    try:
        value = _done(job, options)
        return Done(value, time.monotonic() - began, tuple(beacon.content.get("notices", ())))
    except Interrupted as stopped:
        return Failed(str(stopped), stopped=True)
    except DpwError as error:
        return Failed(str(error))
    finally:
        job.beacon.unlink(missing_ok=True)


def _done(job: Job, options: RunOptions) -> Any:
    """The part of the run that a job names."""
    from dpw.runs import stages

    if job.kind == "begin":
        return stages.begin(job.config, job.folder, options)
    if job.kind == "finish":
        return stages.finish(job.config, job.folder, options, job.conditions)
    run = _opened(job.folder, options)
    if job.kind == "learn":
        return stages.learn(run, job.index, job.key)
    return stages.measure(run, job.index, job.key)


_last: dict[bytes, "BenchmarkRun"] = {}


def _opened(folder: Path, options: RunOptions) -> "BenchmarkRun":
    """A run to do parts of; a process that does several parts of it loads CLIP and lists the images once."""
    from dpw.runs import stages

    key = str(folder).encode() + (folder / "run.json").read_bytes()
    if key not in _last:
        _last.clear()
        _last[key] = stages.opened(folder, options)
    run = _last[key]
    run.options = options
    run.evaluator = replace(run.evaluator, should_stop=options.should_stop)
    return run


def read_beacon(path: Path) -> Mapping[str, Any]:
    """The last sign of life of a job, or nothing."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
