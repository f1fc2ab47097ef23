"""Many runs at once: every run in parts, every part where there is room, nothing learned twice."""

import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dpw.cluster.jobs import STOP, Done, Failed, Job, Kind, read_beacon
from dpw.cluster.workers import Workers
from dpw.engine.callbacks import never
from dpw.errors import InputError, Interrupted, StorageError
from dpw.runs.config import RunConfig
from dpw.runs.parts import Part, Parts

LOOK = 1.0  # seconds between two looks at what the workers do
FORGOTTEN = 86400.0  # seconds of silence after which signs of life are no longer kept


def ignore(told: Any) -> None:
    """Hear how far a grid is, or what somebody should know, and do nothing."""


@dataclass
class GridOptions:
    """How a grid of runs is watched and kept, which changes no number."""

    store: Path
    status: Path | None = None  # a file that always says how far the grid is
    threads: int = 1
    checkpoint_seconds: float = 30.0
    should_stop: Callable[[], bool] = never
    on_change: Callable[[Mapping[str, Any]], None] = ignore
    on_notice: Callable[[str], None] = ignore


@dataclass
class PlannedRun:
    """One run of a grid and how far it is."""

    config: RunConfig
    folder: Path
    stage: str = "waiting"
    parts: Parts | None = None
    outcome: Any = None
    open: set[str] = field(default_factory=set)  # keys that are still to be learned or measured

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.stage in ("finished", "failed", "stopped")


class Grid:
    """Carries runs out on workers: begin each, learn its tasks, measure its test sets, finish it.

    Runs that share a task wait for the one that learns it. A run that fails leaves the others alone.
    """

    def __init__(self, runs: Sequence[PlannedRun], workers: Workers, options: GridOptions) -> None:
        """Nothing runs yet."""
        self.runs, self.workers, self.options = list(runs), workers, options
        self.beacons = options.store.absolute() / "at" / secrets.token_hex(4)
        self.jobs: dict[Any, tuple[Job, PlannedRun]] = {}
        self.shared: dict[str, Any] = {}  # by key: the outcome of a part, None while it is being done
        self.spent: list[tuple[str, int, float]] = []  # kind, images and seconds of every part that was done
        self.told: set[str] = set()  # notices, each once
        self.began = time.time()

    def go(self) -> list[Any]:
        """Do everything; gives for every run its results, or why there are none."""
        self._make_folders()
        try:
            for run in self.runs:
                self._submit(run, "begin")
                run.stage = "beginning"
            while self.jobs:
                for handle in self.workers.wait(list(self.jobs), LOOK):
                    job, run = self.jobs.pop(handle)
                    self._ended(job, run, self.workers.result(handle))
                if self.options.should_stop():
                    self._stop()
                self._tell()
        finally:
            shutil.rmtree(self.beacons, ignore_errors=True)
            _remove_empty(self.beacons.parent, self.options.store)
        return [run.outcome for run in self.runs]

    def _make_folders(self) -> None:
        """Make what the driver writes into, so that a folder that cannot be written is found at once."""
        status = self.options.status
        for folder in [self.beacons, *([] if status is None else [status.parent])]:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                reason = error.strerror or error
                raise StorageError(
                    f"cannot write {folder}: {reason}; mend the rights or choose another --output or --reuse",
                    error.errno,
                ) from error
        for other in self.beacons.parent.iterdir():  # what a command that was killed has left behind
            with suppress(OSError):
                if time.time() - other.stat().st_mtime > FORGOTTEN:
                    shutil.rmtree(other)

    def _stop(self) -> None:
        """Ask all workers to save and stop; jobs that nobody has begun are taken back."""
        with suppress(OSError):
            (self.beacons / STOP).touch()
        for handle, (job, run) in list(self.jobs.items()):
            if not job.beacon.exists() and self.workers.cancel(handle):
                del self.jobs[handle]
                self._fail(job, run, Failed("stopped before the next part", stopped=True))

    # --------------------------------------------------------------------------------- from part to part

    def _submit(self, run: PlannedRun, kind: Kind, index: int = 0, part: Part | None = None) -> None:
        """Queue one part of a run."""
        options = self.options
        job = Job(
            kind,
            run.folder.absolute(),
            run.config,
            options.store.absolute(),
            self.beacons,
            (run.parts.threads if run.parts else None) or options.threads,
            index,
            checkpoint_seconds=options.checkpoint_seconds,
            command=tuple(sys.argv),
            conditions=run.parts.learn[0].key if run.parts and run.parts.learn else "",
        )
        if part is not None:
            job = replace(job, key=part.key, part=part.name, images=part.images)
            self.shared[part.key] = None
        self.jobs[self.workers.submit(job)] = (job, run)

    def _ended(self, job: Job, run: PlannedRun, outcome: Done | Failed) -> None:
        """Take note of what a job gave, and go on with the runs that waited for it."""
        if isinstance(outcome, Failed):
            self._fail(job, run, outcome)
            return
        self._notify(outcome.notices)
        if job.kind == "begin":
            run.parts = outcome.value
            self._go_on(run)
        elif job.kind == "finish":
            run.stage, run.outcome = "finished", outcome.value
        else:
            self.shared[job.key] = outcome
            self.spent.append((job.kind, job.images, outcome.seconds))
            waiting = [one for one in self.runs if job.key in one.open]
            for one in waiting:
                one.open.discard(job.key)
            for one in waiting:
                if not one.open:
                    self._go_on(one)

    def _fail(self, job: Job, run: PlannedRun, outcome: Failed) -> None:
        """End the runs that cannot go on without a part."""
        concerned = [one for one in self.runs if job.key in one.open] if job.key else [run]
        if job.key:
            self.shared[job.key] = outcome
        for one in concerned:
            one.stage, one.outcome, one.open = "stopped" if outcome.stopped else "failed", outcome, set()

    def _go_on(self, run: PlannedRun) -> None:
        """The next stage of a run: learn what is not learned, then measure, then finish."""
        if run.ended:
            return
        if self.options.should_stop():
            run.stage, run.outcome = "stopped", Failed("stopped before the next part", stopped=True)
            return
        parts = run.parts
        for stage, kind, wanted in self._stages(parts):
            missing = {part.key for part in wanted if not self._is_done(part)}
            if not missing:
                continue
            if failed := [one for key in missing if isinstance(one := self.shared.get(key), Failed)]:
                run.stage, run.outcome = "failed", failed[0]
                return
            run.stage, run.open = stage, missing
            biggest_first = sorted(enumerate(wanted), key=lambda pair: -pair[1].images)
            for index, part in biggest_first:
                if part.key in missing and part.key not in self.shared:
                    self._submit(run, kind, index, part)
            return
        run.stage = "finishing"
        self._submit(run, "finish")

    def _is_done(self, part: Part) -> bool:
        """Whether a part was there from the beginning or was done since."""
        return part.done or isinstance(self.shared.get(part.key), Done)

    @staticmethod
    def _stages(parts: Parts | None) -> list[tuple[str, Kind, Sequence[Part]]]:
        """What is done in parts before a run is finished."""
        if parts is None:
            return []
        return [("learning", "learn", parts.learn), ("measuring", "measure", parts.measure)]

    # ------------------------------------------------------------------------------------- how far it is

    def _tell(self) -> None:
        """Say how far everything is."""
        found = self.snapshot()
        for job in found["jobs"]:
            self._notify(job.get("notices", ()))
        self.options.on_change(found)
        if self.options.status is not None:
            write_status(self.options.status, found)

    def _notify(self, notices: Sequence[str]) -> None:
        """Pass on what somebody should know, once however many runs say it."""
        for notice in notices:
            if notice not in self.told:
                self.told.add(notice)
                self.options.on_notice(notice)

    def snapshot(self) -> dict[str, Any]:
        """Every run with its stage, every job with who does it, and the time that is left."""
        jobs = []
        for job, run in self.jobs.values():
            sign = read_beacon(job.beacon)
            jobs.append({"kind": job.kind, "part": job.part, "run": run.folder.name, **sign})
        return {
            "at": time.time(),
            "began": self.began,
            "slots": self.workers.slots,
            "runs": [self._told(run) for run in self.runs],
            "jobs": jobs,
            "left": time_left(self.spent, self._left(jobs), self.workers.slots),
        }

    def _left(self, jobs: Sequence[Mapping[str, Any]]) -> list[tuple[str, float]]:
        """Kind and images of every part that is to be done, what is being done only by its rest."""
        wanted: dict[str, tuple[str, float]] = {}
        for run in self.runs:
            for _, kind, parts in [] if run.ended else self._stages(run.parts):
                wanted |= {part.key: (kind, part.images) for part in parts if not self._is_done(part)}
        for (job, _), sign in zip(self.jobs.values(), jobs, strict=True):
            if job.key in wanted and sign.get("steps"):
                wanted[job.key] = (job.kind, job.images * (1 - sign["step"] / sign["steps"]))
        return list(wanted.values())

    def _told(self, run: PlannedRun) -> dict[str, Any]:
        """One run in plain values."""
        parts = run.parts
        counts = {}
        for stage, _, wanted in self._stages(parts):
            done = sum(map(self._is_done, wanted))
            counts[stage] = [done, len(wanted)]
        why = run.outcome.sentence if isinstance(run.outcome, Failed) else None
        return {"folder": str(run.folder), "stage": run.stage, "parts": counts, "why": why}


def time_left(
    spent: Sequence[tuple[str, int, float]], left: Sequence[tuple[str, float]], slots: int
) -> float | None:
    """Seconds until all parts are done, if an image costs what it did; None before anything is known.

    Example:
        >>> from dpw.cluster.grid import time_left
        >>> time_left([("learn", 100, 50.0)], [("learn", 300), ("learn", 100)], slots=2)
        100.0
    """
    total = 0.0
    for kind, images in left:
        known = [(count, seconds) for one, count, seconds in spent if one == kind]
        if known:
            total += images * sum(seconds for _, seconds in known) / max(1, sum(count for count, _ in known))
    return total / slots if spent else None


def write_status(path: Path, content: Mapping[str, Any]) -> None:
    """Replace the file that says how far a grid is; one that is missed harms nobody."""
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    with suppress(OSError):
        temporary.write_text(json.dumps(content))
        temporary.replace(path)


def _remove_empty(*folders: Path) -> None:
    """Remove folders in which nothing came to be, the innermost first."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def run_grid(runs: Sequence[PlannedRun], workers: Workers, options: GridOptions) -> list[dict[str, Any]]:
    """Carry runs out on workers and give their results.

    Raises:
        InputError: a run could not be done, with the sentence of the first; the others are done.
        Interrupted: somebody asked to stop; the same call goes on.
    """
    found = Grid(runs, workers, options).go()
    failed = [one for one in found if isinstance(one, Failed)]
    if any(one.stopped for one in failed):
        raise Interrupted(next(one.sentence for one in failed if one.stopped))
    if options.status is not None:
        options.status.unlink(missing_ok=True)
        _remove_empty(options.status.parent)
    if failed:
        more = f" ({len(failed)} of {len(found)} runs failed)" if len(found) > 1 else ""
        raise InputError(failed[0].sentence + more)
    return found
