"""How far a sweep is, said as a grid of runs says it: for the display and for `dpw status`."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from dpw.cluster.grid import write_status
from dpw.storage.run_folder import CLUSTER_FILE

STAGES = {"PENDING": "waiting", "RUNNING": "learning", "TERMINATED": "finished", "ERROR": "failed"}
LOOK = 1.0  # seconds between two snapshots


class Scored(Protocol):
    """A point of a sweep, with a name and a score for every task that it has learned."""

    def __str__(self) -> str:
        """Its name."""
        ...

    def scores(self) -> list[float]:
        """One for every task so far."""
        ...


class SweepProgress:
    """Tells how far the trials of Ray Tune are, now and then, to a function and to a file in the sweep."""

    def __init__(
        self,
        points: Sequence[Scored],
        folder: Path,
        tasks: int,
        slots: int,
        on_change: Callable[[Mapping[str, Any]], None],
    ) -> None:
        """Every point learns so many tasks; so many points are learned at once."""
        self.points, self.path, self.tasks, self.slots = points, folder / CLUSTER_FILE, tasks, slots
        self.on_change, self.began, self.told = on_change, time.time(), 0.0
        self.before = sum(len(point.scores()) for point in points)  # by earlier commands

    def tell(self, trials: Sequence[Any]) -> None:
        """Take a snapshot, unless that was just done."""
        if time.time() - self.told < LOOK:
            return
        self.told = time.time()
        found = self.snapshot(trials)
        self.on_change(found)
        write_status(self.path, found)

    def snapshot(self, trials: Sequence[Any]) -> dict[str, Any]:
        """Every point with its stage, those that are being learned with who does it, and the time left."""
        learned = [len(point.scores()) for point in self.points]
        runs, jobs, left = [], [], 0
        for trial in trials:
            number = trial.config["point"]
            stage, done = STAGES.get(trial.status, "waiting"), learned[number]
            name = str(self.points[number])
            parts = {"learning": [done, self.tasks]}
            runs.append({"folder": name, "stage": stage, "parts": parts, "why": None})
            left += 0 if stage in ("finished", "failed") else self.tasks - done
            said = trial.last_result or {}
            if stage == "learning" and "pid" in said:
                who = {"node": said.get("hostname", ""), "pid": said["pid"]}
                jobs.append({"kind": "learn", "part": f"task {done + 1}", "run": name, **who})
        now = sum(learned) - self.before
        spent = time.time() - self.began
        return {
            "at": time.time(),
            "began": self.began,
            "slots": self.slots,
            "runs": runs,
            "jobs": jobs,
            "left": spent / now * left if now else None,
        }

    def end(self) -> None:
        """Nobody works on the sweep any more."""
        self.path.unlink(missing_ok=True)
