"""Runs side by side give the bytes of runs one after another; errors and signals are passed on."""

import io
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import typer
from rich.console import Console

from dpw.cli import side_by_side, terminal
from dpw.cli.side_by_side import Job, run_side_by_side
from tests.helpers.command_line import dpw

WAITS = """
import signal, sys, time
def stop(number, frame):
    print("dpw: stopped, continue with: dpw resume x", file=sys.stderr)
    sys.exit(128 + number)
signal.signal(signal.SIGTERM, stop)
print("ready", file=sys.stderr, flush=True)
time.sleep(30)
"""


def test_two_runs_at_once_are_two_runs(capsys, toy, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    command = ["run", toy / "toy.yaml", "--model", toy / "clip", "--method", "zero-shot", "--seeds", "1,2"]
    for jobs in (1, 2):
        code, out, err = dpw(capsys, *command, "--jobs", jobs, "--output", tmp_path / str(jobs))
        assert code == 0, err
        assert out.count("results.json") == 2
    for seed in (1, 2):
        files = [tmp_path / str(jobs) / f"zero-shot-seed{seed}" / "accuracy.csv" for jobs in (1, 2)]
        assert files[0].read_bytes() == files[1].read_bytes()


def test_what_goes_wrong_in_one_is_said_once_and_is_the_exit_code(capsys):
    jobs = [Job("good", ["methods"]), Job("bad", ["tasks", "nothing"])]
    with pytest.raises(typer.Exit) as ended:
        run_side_by_side(jobs, 2)
    assert ended.value.exit_code == 2
    assert capsys.readouterr().err.count("there is no folder nothing") == 1


def test_what_is_short_begins_last(monkeypatch):
    begun = []
    start = Job.start

    def noted(job, threads):
        begun.append(job.name)
        start(job, threads)

    monkeypatch.setattr(Job, "start", noted)
    jobs = [Job(name, ["methods", "--json"], short=name == "short") for name in ("short", "one", "other")]
    assert len(run_side_by_side(jobs, 1)) == 3
    assert begun == ["one", "other", "short"]


def test_a_signal_reaches_every_process_and_none_is_left(capsys, monkeypatch):
    def start(job, threads):
        job.process = subprocess.Popen([sys.executable, "-c", WAITS], stdout=job.answer, stderr=job.errors)

    monkeypatch.setattr(side_by_side.Job, "start", start)
    jobs = [Job("one", []), Job("two", []), Job("never begun", [])]

    def ask() -> None:
        """Ask to stop as soon as both wait."""
        while not all(b"ready" in os.pread(job.errors.fileno(), 10, 0) for job in jobs[:2]):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    asking = threading.Thread(target=ask)
    asking.start()
    with pytest.raises(typer.Exit) as ended:
        run_side_by_side(jobs, 2)
    asking.join()
    assert ended.value.exit_code == 128 + signal.SIGTERM
    assert capsys.readouterr().err.count("dpw resume x") == 2
    assert jobs[2].process is None
    assert not any(job.running for job in jobs)


def test_a_terminal_shows_how_far_every_run_is(monkeypatch, toy, tmp_path):
    screen = Console(file=io.StringIO(), force_terminal=True, width=80, legacy_windows=False)
    monkeypatch.setattr(terminal, "console", screen)
    monkeypatch.setattr(side_by_side, "console", screen)
    command = ["run", str(toy / "toy.yaml"), "--model", str(toy / "clip"), "--method", "zero-shot"]
    jobs = [
        Job(f"seed {n}", [*command, "--seed", str(n), "--output", str(tmp_path / str(n))], tmp_path / str(n))
        for n in (1, 2)
    ]
    assert len(run_side_by_side(jobs, 2)) == 2
    drawn = screen.file.getvalue()
    assert "seed 1" in drawn
    assert drawn.count("left  3 of 3 tasks") >= 2
