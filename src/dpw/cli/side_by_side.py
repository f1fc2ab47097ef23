"""Several runs at once, each in a process of its own with its share of the cores.

Runs do not know of each other, so their bytes are those of the same runs one after another with as many
threads. A signal is passed on once: every run saves its state and says how it goes on.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import typer

from dpw import DpwError
from dpw.cli.output import say_error
from dpw.cli.terminal import StopRequest, console, name_of, progress_bars, stopping
from dpw.data.cores import usable_cores
from dpw.runs.status import run_status

THREADS = "OMP_NUM_THREADS"
LOOKED_AT = 0.05  # seconds between two looks at the processes
READ_AT = 0.5  # seconds between two looks at what they have written


@dataclass
class Job:
    """One command line of `dpw` whose answer is JSON; `folder` says how far it is, if it writes a run.

    A `short` one is begun after the others, so that no long one is left alone at the end.
    """

    name: str
    arguments: list[str]
    folder: Path | None = None
    short: bool = False
    process: subprocess.Popen[bytes] | None = None
    answer: IO[bytes] = field(default_factory=tempfile.TemporaryFile)
    errors: IO[bytes] = field(default_factory=tempfile.TemporaryFile)

    def start(self, threads: int) -> None:
        """Begin; a signal from the keyboard reaches only the process that started it."""
        environment = {**os.environ, THREADS: os.environ.get(THREADS, str(threads))}
        command = [sys.executable, "-m", "dpw", *self.arguments, "--json"]
        self.process = subprocess.Popen(  # noqa: S603 (our own command)
            command, stdout=self.answer, stderr=self.errors, env=environment, start_new_session=True
        )

    @property
    def running(self) -> bool:
        """Whether it has begun and not ended."""
        return self.process is not None and self.process.poll() is None

    def read(self, file: IO[bytes]) -> str:
        """What the process wrote into one of its files."""
        file.seek(0)
        return file.read().decode(errors="replace")


class Watching:
    """A bar for every job that has begun: how many of its tasks are learned and measured, and time left."""

    def __init__(self) -> None:
        """Nothing is shown before the first job begins, and nothing off a terminal."""
        self.bars = progress_bars()
        self.lines: dict[str, Any] = {}
        self.read = 0.0

    def __enter__(self) -> "Watching":
        """Show bars."""
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the bars on the screen."""
        self.bars.stop()

    def begin(self, job: Job) -> None:
        """A bar for a new job; how much there is to do its folder says later."""
        self.lines[job.name] = self.bars.add_task(name_of(job.name), total=None, details="begins")

    def look(self, jobs: Sequence[Job], again: bool = False) -> None:
        """Read how far jobs are, from time to time, or `again` when one has ended."""
        if not console.is_terminal or (not again and time.monotonic() < self.read + READ_AT):
            return
        self.read = time.monotonic()
        for job in jobs:
            with suppress(DpwError, OSError):  # not begun, or just being written
                if job.folder is not None:
                    run = run_status(job.folder)
                    details = f"{run.measured} of {run.tasks} tasks" if run.tasks else "begins"
                    line = self.lines[job.name]
                    self.bars.update(line, total=run.tasks or None, completed=run.measured, details=details)


def run_side_by_side(jobs: Sequence[Job], at_once: int) -> list[dict[str, Any]]:
    """Carry all jobs out, so many at once, and give their answers in order.

    What they say on stderr is passed on. If one fails the others still end, then its code is ours.
    """
    with stopping() as request, ExitStack() as files:
        for job in jobs:
            files.enter_context(job.answer)
            files.enter_context(job.errors)
        try:
            _carry_out(jobs, at_once, request)
        finally:
            _end([job for job in jobs if job.running])
        return _answers(jobs, request)


def _answers(jobs: Sequence[Job], request: StopRequest) -> list[dict[str, Any]]:
    """What all jobs answered, or the exit code of the first that failed or never began."""
    codes = [
        job.process.returncode if job.process is not None else 128 + (request.signal or 0) for job in jobs
    ]
    if failed := next((code for code in codes if code), 0):
        raise typer.Exit(failed)
    return [json.loads(job.read(job.answer)) for job in jobs]


def _carry_out(jobs: Sequence[Job], at_once: int, request: StopRequest) -> None:
    """Start jobs as others end, show how far they are, and pass a signal on."""
    waiting, running, told = sorted(jobs, key=lambda job: job.short), list[Job](), False
    threads = max(1, usable_cores() // at_once)
    with Watching() as watching:
        while running or (waiting and not request()):
            while waiting and len(running) < at_once and not request():
                running.append(waiting.pop(0))
                running[-1].start(threads)
                watching.begin(running[-1])
            ended = [job for job in running if not job.running]
            for job in ended:
                watching.look([job], again=True)
                running.remove(job)
                for line in job.read(job.errors).splitlines():
                    say_error(line.removeprefix("dpw: "))
            if request() and not told:
                told = True
                for job in running:
                    assert job.process is not None
                    job.process.send_signal(request.signal or signal.SIGTERM)
            watching.look(running)
            time.sleep(LOOKED_AT)


def _end(jobs: Sequence[Job]) -> None:
    """Leave no process behind when somebody asks twice or something breaks."""
    for job in jobs:
        assert job.process is not None
        job.process.kill()
        job.process.wait()
