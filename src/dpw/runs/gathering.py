"""Finished runs as a report sees them: read, checked, and gathered so that seeds are averaged."""

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpw.engine.metrics import Spread, spread
from dpw.runs import results
from dpw.runs.compare import CONDITIONS, as_published
from dpw.runs.published import Published, figures_of

Number = float | None


@dataclass(frozen=True)
class Run:
    """One finished run: its folder, all of `results.json`, and the seconds each step took."""

    folder: Path
    results: dict[str, Any]
    steps: tuple[tuple[str, str, float], ...]


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed, under one label."""

    label: str
    runs: tuple[Run, ...]

    @property
    def method(self) -> str:
        """The method's name, which decides the colour."""
        return str(self.first["method"])

    @property
    def first(self) -> dict[str, Any]:
        """The results that stand for what all runs share."""
        return self.runs[0].results

    @property
    def tasks(self) -> list[str]:
        """The tasks in order."""
        return list(self.first["tasks"])

    @property
    def matrix(self) -> list[list[Number]]:
        """The accuracy matrix, averaged over seeds."""
        return average_table([run.results["accuracy"] for run in self.runs])

    @property
    def zero_shot(self) -> list[Number]:
        """Accuracy of plain CLIP on every test set, averaged over seeds."""
        return average_table([[run.results["zero_shot"]] for run in self.runs])[0]

    def metric(self, name: str) -> Spread | None:
        """A metric over all tasks."""
        return spread([run.results["metrics"][name] for run in self.runs])

    def per_task(self, name: str) -> list[Number]:
        """A metric for each task, averaged over seeds; None where it does not exist."""
        absent = [None] * len(self.tasks)
        rows = [run.results["metrics"]["per_task"].get(name, absent) for run in self.runs]
        return average_table([[row] for row in rows])[0]

    @property
    def parameters(self) -> int:
        """Learned parameters; where the seed decides how many (adaptive heads), the mean."""
        return round(statistics.fmean(run.results["parameters"] for run in self.runs))

    def seconds(self, name: str) -> Spread | None:
        """Time spent learning or measuring."""
        return spread([run.results["seconds"].get(name) for run in self.runs])

    @property
    def confusion(self) -> list[list[float]] | None:
        """Percent of each test set's images (rows) that went to each task, or None without routing."""
        found = [run.results["task_identification"] for run in self.runs]
        if any(one is None for one in found):
            return None
        counts = average_table([one["confusion"] for one in found])
        return [[100 * (value or 0) / (sum(v or 0 for v in row) or 1) for value in row] for row in counts]


@dataclass(frozen=True)
class Section:
    """Groups that may be compared: same benchmark, setting, protocol, shots, tasks and CLIP."""

    title: str
    groups: tuple[Group, ...]

    @property
    def first(self) -> dict[str, Any]:
        """The results that stand for what all runs share."""
        return self.groups[0].first

    @property
    def tasks(self) -> list[str]:
        """The tasks in order."""
        return self.groups[0].tasks

    @property
    def published(self) -> list[Published]:
        """What papers print, if the benchmark was run as it is known; ablations only beside their own."""
        if not as_published({name: self.first[name] for name in CONDITIONS}):
            return []
        presets = frozenset(str(group.first["preset"]) for group in self.groups)
        return figures_of(str(self.first["benchmark"]), presets)


def read_run(folder: Path) -> Run:
    """Read a finished run; anything else is one clear sentence."""
    content = results.read(folder)
    return Run(folder, content, tuple(read_steps(folder / "timings.jsonl")))


def read_steps(path: Path) -> list[tuple[str, str, float]]:
    """Event, task and seconds of every step; a line cut off by a kill is passed over."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            entry = json.loads(line)
            found.append((str(entry["event"]), str(entry["task"]), float(entry["seconds"])))
        except (ValueError, KeyError, TypeError):
            continue
    return found


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """Read runs; a folder of runs stands for all finished ones in it."""
    return [read_run(folder) for folder in results.find_runs(folders)]


def sections(runs: Sequence[Run]) -> list[Section]:
    """Separate what must not be compared, then gather seeds."""
    by_question = _gather(runs, _question)
    found = []
    for same in by_question:
        gathered = _gather(same, _identity)
        labels = _labels([group[0] for group in gathered])
        groups = tuple(Group(label, tuple(group)) for label, group in zip(labels, gathered, strict=True))
        found.append(Section(_title(same[0].results), groups))
    return found


def _gather(runs: Sequence[Run], key: Callable[[dict[str, Any]], str]) -> list[list[Run]]:
    """Runs with an equal key, in the order of first appearance."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(key(run.results), []).append(run)
    return list(found.values())


def _question(content: dict[str, Any]) -> str:
    """What two runs must share to stand in one table."""
    return json.dumps([content[name] for name in CONDITIONS])


def _identity(content: dict[str, Any]) -> str:
    """What two runs share that differ only in their seed."""
    config = {key: value for key, value in content["method_config"].items() if key != "seed"}
    return json.dumps([content["method"], config], sort_keys=True)


def _labels(runs: Sequence[Run]) -> list[str]:
    """Short names: the method, then whatever tells equal methods apart."""
    plain = [str(run.results["method"]) for run in runs]
    named = [
        _with_preset(run) if plain.count(name) > 1 else name for run, name in zip(runs, plain, strict=True)
    ]
    told = []
    for run, name in zip(runs, named, strict=True):
        settings = run.results["settings"].get("settings") or {}
        differing = named.count(name) > 1 and settings
        told.append(f"{name} {_short(settings, runs)}".strip() if differing else name)
    return [
        f"{name} ({run.folder.name})" if told.count(name) > 1 else name
        for run, name in zip(runs, told, strict=True)
    ]


def _with_preset(run: Run) -> str:
    """The method with its preset."""
    preset = run.results["preset"]
    return str(run.results["method"]) + ("" if preset == "default" else f" {preset}")


def _short(settings: dict[str, Any], runs: Sequence[Run]) -> str:
    """The settings that not every run has, in few words."""
    others = [run.results["settings"].get("settings") or {} for run in runs]
    own = {key: value for key, value in settings.items() if any(o.get(key) != value for o in others)}
    return ", ".join(f"{key.split('.')[-1]}={value}" for key, value in own.items())


def _title(content: dict[str, Any]) -> str:
    """What was asked of every method."""
    shots = f", {content['shots']} shots" if content["shots"] else ""
    known = f"{content['benchmark']}, {content['setting']}, protocol {content['protocol']}{shots}"
    return f"{known}, CLIP {content['model']}"


def average_table(tables: Sequence[Sequence[Sequence[Number]]]) -> list[list[Number]]:
    """Cell by cell the mean over seeds; a cell that is missing in one is missing."""
    averaged = []
    for rows in zip(*tables, strict=True):
        spreads = [spread(cells) for cells in zip(*rows, strict=True)]
        averaged.append([None if cell is None else cell.mean for cell in spreads])
    return averaged
