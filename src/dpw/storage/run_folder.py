"""The folder of a benchmark run: which files it holds, how each is written, and how it is read.

run.json              what was asked for; with it the folder is a run
model/                the tasks learned so far, a model folder
progress/             the checkpoint of the task that is being learned
rows/zero-shot.json   accuracy of plain CLIP on every test set
rows/NNN.json         one row of the accuracy matrix, after task NNN
metrics.jsonl         losses and accuracies, line by line
timings.jsonl         seconds of every step
results.json          everything a finished run found; with it the run is finished
accuracy.csv          the accuracy matrix as a table
figures/              what `dpw figures` draws
"""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dpw.errors import DamagedFileError, InputError
from dpw.storage import files
from dpw.storage.checkpoint import refuse_differences
from dpw.storage.csv_file import csv_cell
from dpw.storage.lock import is_own_name
from dpw.storage.logs import MetricsLog
from dpw.storage.schema import ResultsContent, RowContent, RunContent, ZeroShotContent, check_content

CLUSTER_FILE = ".dpw-cluster.json"  # how far a cluster is, beside the runs it works on while it does
RUN_HEADER: Mapping[str, Any] = {"format": files.FORMAT, "kind": "dpw-run"}
RESULTS_HEADER: Mapping[str, Any] = {"format": files.FORMAT, "kind": "dpw-results"}


def _is_own(name: str) -> bool:
    """Whether a file says nothing but that somebody is at work here."""
    return is_own_name(name) or name.startswith(CLUSTER_FILE.removesuffix(".json"))


class Step(NamedTuple):
    """One step of a run ("learn" or "measure"), the task it was about, and how long it took."""

    event: str
    task: str
    seconds: float


class RunFolder:
    """The files of one run; nothing is written before it is asked for."""

    def __init__(self, path: str | Path) -> None:
        """Look at a folder, which need not exist."""
        self.path = Path(path)

    # ------------------------------------------------------------------------------------------ what is where

    @property
    def model(self) -> Path:
        """The model folder with the tasks learned so far."""
        return self.path / "model"

    @property
    def checkpoint(self) -> Path:
        """The checkpoint of the task that is being learned."""
        return self.path / "progress"

    @property
    def figures(self) -> Path:
        """Where figures of the run are drawn unless another folder is given."""
        return self.path / "figures"

    @property
    def metrics(self) -> MetricsLog:
        """The log of losses and accuracies."""
        return MetricsLog(self.path / "metrics.jsonl")

    @property
    def timings(self) -> MetricsLog:
        """The log of times."""
        return MetricsLog(self.path / "timings.jsonl")

    @property
    def started(self) -> bool:
        """Whether a run was begun here."""
        return self._run.exists()

    @property
    def finished(self) -> bool:
        """Whether there are results."""
        return self._results.exists()

    def finished_below(self) -> "list[RunFolder]":
        """The finished runs in this folder and in its folders, by name: `runs` holds those of `runs/mini`."""
        return self._below(self._results.name)

    def started_below(self) -> "list[RunFolder]":
        """The runs that were begun in this folder and in its folders, by name."""
        return self._below(self._run.name)

    def _below(self, file: str) -> "list[RunFolder]":
        """The folders, at most two levels down, that hold a file of this name."""
        found = {path.parent for depth in ("*", "*/*") for path in self.path.glob(f"{depth}/{file}")}
        return [RunFolder(path) for path in sorted(found)]

    # -------------------------------------------------------------------------------------- the run, its rows

    def refuse_unless_empty(self) -> None:
        """Make sure that nothing of somebody else's is in a folder where a run is to begin."""
        if not self.path.exists():
            return
        if not self.path.is_dir() or any(not _is_own(path.name) for path in self.path.iterdir()):
            raise InputError(f"{self.path} is not an empty folder: choose another --output")

    def write_run(self, content: Mapping[str, Any]) -> None:
        """Say what the run is; from now on the folder is a run."""
        files.write_json(self._run, {**RUN_HEADER, **content})

    def read_run(self) -> dict[str, Any]:
        """What the run is."""
        content = files.read_json(self._run, "dpw run")
        if content.get("kind") != RUN_HEADER["kind"]:
            raise DamagedFileError(f"{self._run} is a {content.get('kind')!r}, not a run")
        check_content(RunContent, content, self._run, whole=False)
        return content

    def refuse_other(self, settings: Mapping[str, Any], unnamed: Mapping[str, Any] | None = None) -> None:
        """Make sure that the run in this folder was begun with these settings; `unnamed` may be missing."""
        refuse_differences(self._run, {**(unnamed or {}), **self.read_run()["settings"]}, settings)

    @property
    def untouched(self) -> bool:
        """Whether the run was begun and nothing of it was learned or measured yet."""
        return not any(path.exists() for path in (self._row(0), self.model, self.checkpoint, self._results))

    def write_row(self, index: int, row: Mapping[str, Any]) -> None:
        """Commit one row of the accuracy matrix."""
        files.write_json(self._row(index), {"format": files.FORMAT, **row})

    def read_rows(self) -> list[dict[str, Any]]:
        """The rows that are committed, in order."""
        rows: list[dict[str, Any]] = []
        while self._row(len(rows)).exists():
            path = self._row(len(rows))
            row = files.read_json(path, "dpw run")
            check_content(RowContent, row, path, whole=False)
            rows.append(row)
        return rows

    def write_zero_shot(self, accuracy: Sequence[float | None]) -> None:
        """Commit the accuracy of plain CLIP on every test set."""
        files.write_json(self._zero_shot, {"format": files.FORMAT, "accuracy": list(accuracy)})

    def read_zero_shot(self) -> list[float | None] | None:
        """The accuracy of plain CLIP on every test set, or None if it was not measured yet."""
        if not self._zero_shot.exists():
            return None
        content = files.read_json(self._zero_shot, "dpw run")
        check_content(ZeroShotContent, content, self._zero_shot, whole=False)
        return list(content["accuracy"])

    # ------------------------------------------------------------------------------------- what a run found

    def write_results(self, content: Mapping[str, Any]) -> None:
        """Write `accuracy.csv` and then `results.json`, which makes the run a finished one."""
        self._write_accuracy(content)
        files.write_json(self._results, {**RESULTS_HEADER, **content})

    def _write_accuracy(self, content: Mapping[str, Any]) -> None:
        """Write the accuracy matrix as a table, unless it is there as it should be."""
        table = io.StringIO()
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow(["after", *map(csv_cell, content["tasks"])])
        writer.writerow(["zero-shot", *content["zero_shot"]])
        for name, row in zip(content["tasks"], content["accuracy"], strict=True):
            writer.writerow([csv_cell(name), *row])
        path, wanted = self.path / "accuracy.csv", table.getvalue().encode()
        if not path.is_file() or path.stat().st_size != len(wanted) or path.read_bytes() != wanted:
            files.write_bytes(path, wanted)

    def checked_results(self) -> dict[str, Any]:
        """The results of a finished run, its log checked and its table mended; no result is written anew."""
        rows = self.read_rows()
        if rows:
            self.metrics.rewind(rows[-1]["log_bytes"], rows[-1].get("log_sha256"))
        content = self.read_results()
        self._write_accuracy(content)
        return content

    def read_results(self) -> dict[str, Any]:
        """What a finished run found; anything else is one clear sentence."""
        if not self.finished and self.started:
            raise InputError(
                f"the run in {self.path} is not finished: continue it with 'dpw resume {self.path}'"
            )
        content = files.read_json(self._results, "finished dpw run")
        if content.get("kind") != RESULTS_HEADER["kind"]:
            raise DamagedFileError(f"{self._results} is a {content.get('kind')!r}, not the results of a run")
        check_content(ResultsContent, content, self._results, whole=False)
        return content

    def refuse_incomplete(self) -> None:
        """Refuse a run whose files lack what is needed to go on with it, or to show what it found.

        Its folders must be its own: where a link leads, nothing is written.
        """
        for folder in (self.model, self.checkpoint, self._zero_shot.parent):
            files.refuse_link(folder)
        if self.started:
            check_content(RunContent, self.read_run(), self._run)
        for index, row in enumerate(self.read_rows()):
            check_content(RowContent, row, self._row(index))
        if self.finished:
            check_content(ResultsContent, self.read_results(), self._results)

    def read_steps(self) -> list[Step]:
        """The time of every step, over all sessions; a line that is not whole is passed over."""
        steps = []
        for entry in self.timings.entries():
            try:
                step = Step(str(entry["event"]), str(entry["task"]), float(entry["seconds"]))
            except (KeyError, TypeError, ValueError):
                continue
            steps += [step] if math.isfinite(step.seconds) and step.seconds >= 0 else []
        return steps

    @property
    def _run(self) -> Path:
        """What was asked for."""
        return self.path / "run.json"

    @property
    def _results(self) -> Path:
        """Everything that was found."""
        return self.path / "results.json"

    @property
    def _zero_shot(self) -> Path:
        """Plain CLIP."""
        return self.path / "rows" / "zero-shot.json"

    def _row(self, index: int) -> Path:
        """One row of the accuracy matrix."""
        return self.path / "rows" / f"{index:03d}.json"
