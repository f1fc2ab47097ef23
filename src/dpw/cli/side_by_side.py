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
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import IO, Any

import typer

from dpw.cli.output import say, say_error
from dpw.cli.terminal import StopRequest, console, stopping
from dpw.data.cores import usable_cores

THREADS = "OMP_NUM_THREADS"
LOOKED_AT = 0.05  # seconds between two looks at the processes


@dataclass
class Job:
    """One command line of `dpw` whose answer is JSON."""

    name: str
    arguments: list[str]
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
    """Start jobs as others end, tell of each that ended, and pass a signal on."""
    waiting, running, told = list(jobs), list[Job](), False
    threads = max(1, usable_cores() // at_once)
    while running or (waiting and not request()):
        while waiting and len(running) < at_once and not request():
            running.append(waiting.pop(0))
            running[-1].start(threads)
            _tell(f"{running[-1].name} begins")
        for job in [job for job in running if not job.running]:
            running.remove(job)
            for line in job.read(job.errors).splitlines():
                say_error(line.removeprefix("dpw: "))
            _tell(f"{job.name} has ended")
        if request() and not told:
            told = True
            for job in running:
                assert job.process is not None
                job.process.send_signal(request.signal or signal.SIGTERM)
        time.sleep(LOOKED_AT)


def _end(jobs: Sequence[Job]) -> None:
    """Leave no process behind when somebody asks twice or something breaks."""
    for job in jobs:
        assert job.process is not None
        job.process.kill()
        job.process.wait()


def _tell(message: str) -> None:
    """One line about what happens, where somebody is watching."""
    if console.is_terminal:
        say(message, err=True)
