"""Finished runs gathered for every table, page and figure: what must not be compared apart, seeds together.

Runs under different conditions (benchmark, setting, protocol, shots, CLIP, tasks) are sections of their own.
Within a section, runs that differ only in their seed are one group.
"""

import json
import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpw.benchmarks import list_benchmarks
from dpw.errors import DamagedFileError, InputError
from dpw.runs.labels import full_label, short_labels, unique
from dpw.runs.published import Published, figures_of
from dpw.storage.run_folder import RunFolder, Step

Number = float | None

# The metrics of a run by their name in results.json, as tables show them.
METRICS = {
    "transfer": "Transfer",
    "avg": "Avg",
    "last": "Last",
    "mean": "Mean",
    "forgetting": "forgetting",
    "zero_shot_loss": "zero-shot loss",
}
MAIN_METRICS = ("transfer", "avg", "last", "mean", "forgetting")

# What two runs must share to stand in one table, with what it is called there.
CONDITIONS = {
    "benchmark": "benchmark",
    "setting": "setting",
    "protocol": "protocol",
    "shots": "shots",
    "merge_equal_names": "equal names merged",
    "model": "CLIP",
    "tasks": "tasks",
}


NEEDED = (*CONDITIONS, "method", "preset", "decision", "seed", "metrics", "settings", "method_config")


@dataclass(frozen=True)
class Spread:
    """A mean over seeds with its sample deviation; one seed has none."""

    mean: float
    deviation: float | None = None

    def __str__(self) -> str:
        """One decimal, as papers print it."""
        return f"{self.mean:.1f}" if self.deviation is None else f"{self.mean:.1f} ± {self.deviation:.1f}"


def spread(values: Sequence[Number]) -> Spread | None:
    """Mean and deviation over seeds; None unless every seed has a value."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    if len(known) == 1:
        return Spread(known[0])
    return Spread(statistics.fmean(known), statistics.stdev(known))


@dataclass(frozen=True)
class Run:
    """One finished run: its folder, all of `results.json`, and the seconds each step took."""

    folder: Path
    results: dict[str, Any]
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed.

    `label` is short, tells the groups of a section apart and suits a legend; `full_label` names every choice
    of the user's and can stand alone.
    """

    label: str
    full_label: str
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
    def seeds(self) -> tuple[int, ...]:
        """The seeds in order."""
        return tuple(sorted(int(run.results["seed"]) for run in self.runs))

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
    def extra_data(self) -> bool | None:
        """Whether the method looked at data beyond the tasks; None where an older result does not say."""
        found: bool | None = self.first.get("extra_data")
        return found

    @property
    def parameters(self) -> float:
        """Learned parameters; where the seed decides how many (adaptive heads), the mean."""
        mean: float = statistics.mean(run.results["parameters"] for run in self.runs)
        return mean

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

    groups: tuple[Group, ...]

    @property
    def conditions(self) -> dict[str, Any]:
        """What all runs of the section share, by the names of `CONDITIONS`."""
        return {name: self.groups[0].first[name] for name in CONDITIONS}

    @property
    def title(self) -> str:
        """The conditions in one line."""
        shared = self.conditions
        parts = [f"{shared['benchmark']} ({shared['setting']})", f"protocol {shared['protocol']}"]
        if shared["shots"] is not None:
            parts.append(f"{shared['shots']} images a class")
        if shared["merge_equal_names"]:
            parts.append("equally named classes merged")
        tasks = "1 task" if len(shared["tasks"]) == 1 else f"{len(shared['tasks'])} tasks"
        return ", ".join([*parts, f"CLIP {shared['model']}", tasks])

    @property
    def tasks(self) -> list[str]:
        """The tasks in order."""
        return self.groups[0].tasks

    @property
    def published(self) -> list[Published]:
        """What papers print, if the benchmark was run as it is known; ablations only beside their own."""
        if not _as_published(self.conditions):
            return []
        presets = frozenset(str(group.first["preset"]) for group in self.groups)
        return figures_of(str(self.conditions["benchmark"]), presets)


def _as_published(conditions: Mapping[str, Any]) -> bool:
    """Whether the runs saw the benchmark as it is known: its tasks, its order, its number of images."""
    for known in list_benchmarks():
        if known.name == conditions["benchmark"]:
            tasks = [source.name for source in known.tasks]
            return (tasks, known.shots) == (list(conditions["tasks"]), conditions["shots"])
    return False


# ------------------------------------------------------------------------------------------- find and gather


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """The runs that are named, each once; a folder of runs stands for all finished ones in it.

    `runs` may be such a folder, whose own folders (`runs/mini`) hold the runs.
    """
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            raise InputError(f"there is no folder {path}: give the folder of a finished run")
        folder = RunFolder(path)
        if folder.finished or folder.started:
            found.append(path)
            continue
        inside = folder.finished_below()
        if not inside:
            raise InputError(f"{path} holds no finished run: give the folder of a run, or a folder of runs")
        found += [one.path for one in inside]
    if not found:
        raise InputError("give at least one folder of a finished run")
    return list({os.path.realpath(path): path for path in found}.values())


def read_run(folder: Path) -> Run:
    """Read a finished run; anything else is one clear sentence."""
    files = RunFolder(folder)
    results = files.read_results()
    missing = [key for key in NEEDED if key not in results]
    if not missing and "settings" not in results["settings"]:
        missing = ["settings.settings"]
    if missing:
        raise DamagedFileError(
            f"the results in {folder} lack {missing[0]!r}: run 'dpw resume {folder}' again"
        )
    return Run(folder, results, tuple(files.read_steps()))


def read_runs(folders: Iterable[Path]) -> list[Run]:
    """Read runs; a folder of runs stands for all finished ones in it."""
    return [read_run(folder) for folder in find_runs(folders)]


def sections(runs: Sequence[Run]) -> list[Section]:
    """Separate what must not be compared, then gather seeds; the same seed twice is refused."""
    return [_section(_gather(same, _identity)) for same in _gather(runs, _conditions)]


def _section(gathered: Sequence[Sequence[Run]]) -> Section:
    """Label and check the groups of one section."""
    first = [group[0].results for group in gathered]
    folders = [group[0].folder.name for group in gathered]
    full = unique([full_label(content) for content in first], folders)
    short = unique(short_labels(first), folders)
    groups = [Group(*labelled) for labelled in zip(short, full, map(tuple, gathered), strict=True)]
    for group in groups:
        _refuse_equal_seeds(group)
    return Section(tuple(groups))


def _refuse_equal_seeds(group: Group) -> None:
    """A seed counts once: the same run twice would look like agreement."""
    folders: dict[int, Path] = {}
    for run in group.runs:
        seed = run.results["seed"]
        if seed in folders:
            raise InputError(
                f"{folders[seed]} and {run.folder} are {group.full_label} with the same seed {seed}: "
                "give only one of them"
            )
        folders[seed] = run.folder


def _gather(runs: Sequence[Run], key: Callable[[Mapping[str, Any]], str]) -> list[list[Run]]:
    """Runs with an equal key, in the order of first appearance."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(key(run.results), []).append(run)
    return list(found.values())


def _conditions(content: Mapping[str, Any]) -> str:
    """What two runs share that may stand in one table."""
    return json.dumps([content[name] for name in CONDITIONS])


def _identity(content: Mapping[str, Any]) -> str:
    """What two runs share that differ only in their seed."""
    config = {key: value for key, value in content["method_config"].items() if key != "seed"}
    chosen = [content[name] for name in ("method", "preset", "decision")]
    return json.dumps([*chosen, content["settings"]["settings"], config], sort_keys=True)


def average_table(tables: Sequence[Sequence[Sequence[Number]]]) -> list[list[Number]]:
    """Cell by cell the mean over seeds; a cell that is missing in one is missing."""
    averaged = []
    for rows in zip(*tables, strict=True):
        spreads = [spread(cells) for cells in zip(*rows, strict=True)]
        averaged.append([None if cell is None else cell.mean for cell in spreads])
    return averaged
