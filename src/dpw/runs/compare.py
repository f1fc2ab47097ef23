"""Finished runs side by side: seeds averaged, one table a benchmark and protocol, published rows marked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from dpw.benchmarks import list_benchmarks
from dpw.engine.metrics import Spread, spread
from dpw.errors import InputError
from dpw.runs import results
from dpw.runs.published import Published, figures_of

METRICS = ("transfer", "avg", "last", "mean", "forgetting")

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


@dataclass(frozen=True)
class Row:
    """One method with one set of settings; `seeds` is empty for a published row."""

    label: str
    protocol: str
    values: Mapping[str, Spread | None]
    parameters: float | None
    seeds: tuple[int, ...] = ()
    source: str = "measured"
    note: str = ""

    @property
    def published(self) -> bool:
        """Whether somebody else printed it."""
        return not self.seeds


@dataclass(frozen=True)
class Table:
    """Rows measured under the same conditions, and what others have published about the same benchmark."""

    conditions: Mapping[str, Any]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The conditions in one line."""
        shown = self.conditions
        parts = [f"{shown['benchmark']} ({shown['setting']})", f"protocol {shown['protocol']}"]
        if shown["shots"] is not None:
            parts.append(f"{shown['shots']} images a class")
        if shown["merge_equal_names"]:
            parts.append("equally named classes merged")
        return ", ".join([*parts, f"CLIP {shown['model']}", f"{len(shown['tasks'])} tasks"])


def compare(paths: Sequence[Path], *, published: bool = True) -> list[Table]:
    """Tables of all runs; runs under different conditions never share one."""
    by_condition: dict[str, list[Mapping[str, Any]]] = {}
    for folder in results.find_runs(paths):
        result = {**results.read(folder), "folder": folder}
        by_condition.setdefault(str(_conditions(result)), []).append(result)
    tables = [_table(found, published) for found in by_condition.values()]
    if len(tables) == 1:
        return tables
    differing = ", ".join(CONDITIONS[name] for name in CONDITIONS if _differ(tables, name))
    note = f"The runs differ in {differing}: there is a table for each, and numbers of two do not compare."
    return [Table(table.conditions, table.rows, (*table.notes, note)) for table in tables]


def _conditions(result: Mapping[str, Any]) -> dict[str, Any]:
    """What decides which table a run belongs to."""
    return {name: result[name] for name in CONDITIONS}


def _differ(tables: Sequence[Table], name: str) -> bool:
    """Whether one condition is not the same in all tables."""
    return len({str(table.conditions[name]) for table in tables}) > 1


def _table(found: Sequence[Mapping[str, Any]], published: bool) -> Table:
    """One table of runs under the same conditions."""
    by_label: dict[str, list[Mapping[str, Any]]] = {}
    for result in found:
        by_label.setdefault(label(result), []).append(result)
    rows = [_measured(name, runs) for name, runs in by_label.items()]
    conditions, notes = _conditions(found[0]), []
    if any(result["decision"] != "per-image" for result in found):
        notes.append("[batch-vote]: all images of a batch share one decision, which tells the method more.")
    if published:
        presets = frozenset(str(result["preset"]) for result in found)
        same = as_published(conditions)
        printed = [_printed(row) for row in figures_of(conditions["benchmark"], presets)] if same else []
        rows += printed
        notes.append(_about_published(conditions, printed))
    return Table(conditions, tuple(rows), tuple(notes))


def as_published(conditions: Mapping[str, Any]) -> bool:
    """Whether the runs saw the benchmark as it is known: its tasks, its order, its number of images."""
    for known in list_benchmarks():
        if known.name == conditions["benchmark"]:
            tasks = [source.name for source in known.tasks]
            return (tasks, known.shots) == (list(conditions["tasks"]), conditions["shots"])
    return False


def _about_published(conditions: Mapping[str, Any], printed: Sequence[Row]) -> str:
    """What a reader must know before comparing with printed figures."""
    if not printed:
        return f"No figures are published for {conditions['benchmark']} in this form."
    note = "Published figures are copied as printed, for CLIP ViT-B/16 (openai/clip-vit-base-patch16)"
    if any(row.protocol != conditions["protocol"] for row in printed):
        note += f"; those of another protocol than {conditions['protocol']} do not compare directly"
    return f"{note}."


def label(result: Mapping[str, Any]) -> str:
    """What tells rows apart: the method, its preset, the settings that were changed, a shared decision."""
    name = str(result["method"])
    if result["preset"] != "default":
        name += f" ({result['preset']})"
    own = result["settings"]["settings"]
    if own:
        name += " {" + ", ".join(f"{key}={value}" for key, value in sorted(own.items())) + "}"
    return name if result["decision"] == "per-image" else f"{name} [{result['decision']}]"


def _measured(name: str, runs: Sequence[Mapping[str, Any]]) -> Row:
    """The seeds of one method averaged."""
    folders: dict[int, Path] = {}
    for run in runs:
        if run["seed"] in folders:
            both = f"{folders[run['seed']]} and {run['folder']}"
            raise InputError(f"{both} are {name} with the same seed {run['seed']}: give only one of them")
        folders[run["seed"]] = run["folder"]
    values = {metric: spread([run["metrics"][metric] for run in runs]) for metric in METRICS}
    parameters = mean(run["parameters"] for run in runs)
    note = "reconstruction" if "reconstruction" in runs[0]["status"] else ""
    return Row(name, runs[0]["protocol"], values, parameters, tuple(sorted(folders)), note=note)


def _printed(row: Published) -> Row:
    """A published row in the same form."""
    values = {metric: spread([getattr(row, metric, None)]) for metric in METRICS}
    name = row.method if row.preset == "default" else f"{row.method} ({row.preset})"
    parameters = None if row.parameters is None else row.parameters * 1e6
    return Row(name, row.protocol, values, parameters, (), f"published: {row.source}", row.note)
