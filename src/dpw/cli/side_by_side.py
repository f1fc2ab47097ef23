"""Runs of one command over the cores of this machine, and the tasks of runs whose tasks need no other.

The parts of a run are learned and measured by processes with their share of the threads and meet in a folder
of learned tasks, so a run's bytes are those of one process with as many threads.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dpw import DpwError, Interrupted
from dpw.cli.output import say_error
from dpw.cli.terminal import console, exit_code, name_of, progress_bars, stopping
from dpw.data.cores import THREADS, own_threads, usable_cores
from dpw.runs.status import run_status
from dpw.storage.run_folder import CLUSTER_FILE

if TYPE_CHECKING:
    from dpw.runs.config import RunConfig

KEY = re.compile("[0-9a-f]{64}")
COMMAND = re.compile("[0-9a-f]{8}")  # a folder of signs of life, left behind by a killed command


class Bars:
    """A bar for every run: how many of its parts are done, and the time left; silent off a terminal."""

    def __init__(self) -> None:
        """Nothing is shown before the first look."""
        self.bars = progress_bars()
        self.lines: dict[str, Any] = {}

    def __enter__(self) -> "Bars":
        """Show bars."""
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the bars on the screen."""
        self.bars.stop()

    def show(self, snapshot: Mapping[str, Any]) -> None:
        """Draw how far every run is."""
        for run in snapshot["runs"] if console.is_terminal else ():
            folder = Path(run["folder"])
            if run["folder"] not in self.lines:
                self.lines[run["folder"]] = self.bars.add_task(name_of(folder.name), total=None, details="")
            done, total, details = _how_far(folder, run)
            self.bars.update(self.lines[run["folder"]], total=total or None, completed=done, details=details)


def _how_far(folder: Path, run: Mapping[str, Any]) -> tuple[int, int, str]:
    """Parts done, all parts, and the stage in words; a run of one part says it by its folder."""
    if run["stage"] == "finished":
        return 1, 1, "finished"
    counts = list(run["parts"].values())
    if any(total for _, total in counts):
        done, total = (sum(count) for count in zip(*counts, strict=True))
        stages = [f"{stage} {done} of {all_}" for stage, (done, all_) in run["parts"].items() if done < all_]
        return done, total, stages[0] if stages else run["stage"]
    with suppress(DpwError, OSError):  # not begun, or just being written
        found = run_status(folder)
        if found.tasks:
            return found.measured, found.tasks, f"{found.measured} of {found.tasks} tasks"
    return 0, 0, run["stage"]


def run_side_by_side(
    runs: Sequence[tuple["RunConfig", Path]],
    base: Path,
    at_once: int,
    reuse: Path | None = None,
    checkpoint_seconds: float = 30.0,
) -> list[dict[str, Any]]:
    """Carry runs out by so many processes and give their results in order.

    If one fails the others still end. What was learned lies in `reuse`, or beside `base` until all are done.
    """
    from dpw.cluster.grid import GridOptions, PlannedRun, run_grid
    from dpw.cluster.processes import ProcessWorkers
    from dpw.runs.parts import read_ahead

    threads = own_threads() if THREADS in os.environ else max(1, usable_cores() // at_once)
    store = reuse or base.parent / f".{base.name}-parts"
    with stopping() as request, ProcessWorkers(at_once, threads) as workers, Bars() as bars:
        read_ahead(runs[0][0], enough=lambda: workers.ready or request())
        options = GridOptions(
            store, base / CLUSTER_FILE, threads, checkpoint_seconds, request, bars.show, say_error
        )
        try:
            found = run_grid([PlannedRun(config, folder) for config, folder in runs], workers, options)
        except Interrupted as stopped:
            say_error(f"{stopped}; the same command goes on, or dpw resume with the folder of one run")
            raise typer.Exit(exit_code(request)) from stopped
    if reuse is None:
        _remove_parts(store)
    return [{**one, "folder": str(folder)} for one, (_, folder) in zip(found, runs, strict=True)]


def _remove_parts(store: Path) -> None:
    """Remove what runs have shared, and their folders unless something else lies there, too."""
    for kind, named in (("learned", KEY), ("measured", KEY), ("unfinished", KEY), ("at", COMMAND)):
        for entry in (store / kind).glob("*"):
            if named.fullmatch(entry.stem):
                entry.unlink() if entry.is_file() else shutil.rmtree(entry, ignore_errors=True)
        with suppress(OSError):
            (store / kind).rmdir()
    with suppress(OSError):
        store.rmdir()
