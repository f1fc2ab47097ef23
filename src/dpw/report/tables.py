"""The tables of a report, as data: the same numbers go to HTML and to CSV."""

import csv
import hashlib
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpw.runs.gathering import METRICS, Group, Number, Section, Spread
from dpw.runs.published import EXTRA_DATA, Published
from dpw.runs.published_datasets import BY_DATASET
from dpw.storage.csv_file import csv_cell

Cell = str | int | float | Spread | None


@dataclass(frozen=True)
class Table:
    """A named table with a sentence on how to read it."""

    name: str
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


def heading(metric: str) -> str:
    """A metric's name with a capital letter, as the head of a column."""
    shown = METRICS[metric]
    return shown[0].upper() + shown[1:]


def summary(section: Section) -> Table:
    """Every method in one line, and the published figures of the same benchmark below."""
    rows = [_own_row(group) for group in section.groups]
    rows += [_published_row(row) for row in section.published]
    note = "Percent; ± is the deviation over seeds. " + (
        "Published rows are copied as printed, for CLIP ViT-B/16; compare only under the same protocol."
        if section.published
        else "No figures are published for this benchmark in this form."
    )
    header = ("Method", *map(heading, METRICS), "Parameters", "Extra data", "Seeds", "From")
    if not section.published:  # then all of them are from this report
        header, rows = header[:-1], [row[:-1] for row in rows]
    return Table("summary", "Summary", header, tuple(rows), note)


def _own_row(group: Group) -> tuple[Cell, ...]:
    """One method as we measured it."""
    metrics = [group.metric(name) for name in METRICS]
    seeds = ", ".join(str(run.results["seed"]) for run in group.runs)
    extra = yes_or_no(group.extra_data)
    return (group.label, *metrics, round(group.parameters), extra, seeds, "this report")


def _published_row(printed: Published) -> tuple[Cell, ...]:
    """One method as a paper prints it."""
    preset = "" if printed.preset == "default" else f" {printed.preset}"
    parameters = None if printed.parameters is None else round(printed.parameters * 1e6)
    note = f"; {printed.note}" if printed.note else ""
    return (
        f"{printed.method}{preset} (published)",
        printed.transfer,
        printed.avg,
        printed.last,
        printed.mean,
        None,
        None,
        parameters,
        yes_or_no(EXTRA_DATA.get(printed.method)),
        None,
        f"{printed.source}, protocol {printed.protocol}{note}",
    )


def yes_or_no(value: bool | None) -> str | None:
    """An answer in words; none where nobody said."""
    return None if value is None else "yes" if value else "no"


def per_task(section: Section) -> Table:
    """What each method reached on each task."""
    metrics = ("transfer", "avg", "last", "forgetting")
    rows: list[tuple[Cell, ...]] = [("plain CLIP", "Zero-shot", *section.groups[0].zero_shot)]
    for group in section.groups:
        rows += [(group.label, heading(name), *group.per_task(name)) for name in metrics]
    header = ("Method", "Metric", *section.tasks)
    note = "Transfer: before the task was learned. Last: after all tasks. Forgetting: fall from the best."
    return Table("per-task", "Task by task", header, tuple(rows), note)


def by_dataset(section: Section) -> Table:
    """Each method on each dataset beside what the paper prints for it there, with the difference."""
    printed = BY_DATASET.get(str(section.conditions["benchmark"]), {}) if section.published else {}
    protocols = {row.method: row.protocol for row in section.published if row.preset == "default"}
    own_protocol = section.conditions["protocol"]
    rows: list[tuple[Cell, ...]] = []
    for metric in ("transfer", "avg", "last"):
        left = [row.method for row in section.published if row.preset == "default"]
        for group in section.groups:
            own = [*group.per_task(metric), _mean_of(group.metric(metric))]
            rows.append((group.label, heading(metric), f"this run, protocol {own_protocol}", *own))
            as_printed = group.first["preset"] in ("default", "official")
            if as_printed and (figures := printed.get((metric, group.method))):
                paper = [*figures.values, figures.average]
                source = f"published, protocol {protocols[group.method]}"
                rows.append((group.label, heading(metric), source, *paper))
                alike = protocols[group.method] == own_protocol
                name = "difference" if alike else "difference, between two protocols"
                rows.append((group.label, heading(metric), name, *map(_difference, own, paper)))
                left = [method for method in left if method != group.method]
        for method in left:
            if figures := printed.get((metric, method)):
                paper = [*figures.values, figures.average]
                rows.append((method, heading(metric), f"published, protocol {protocols[method]}", *paper))
    note = "Difference: this run minus the published value, which is of ViT-B/16 under the named protocol."
    noted = [row for row in section.published if row.preset == "default" and row.note]
    remarks = [f"{row.method}: {row.note}." for row in noted]
    header = ("Method", "Metric", "From", *section.tasks, "average")
    return Table("by-dataset", "Dataset by dataset", header, tuple(rows), " ".join([note, *remarks]))


def _mean_of(value: Spread | None) -> Number:
    """The mean over seeds."""
    return None if value is None else value.mean


def _difference(own: Number, paper: Number) -> Number:
    """How much better the run is, where both have a value."""
    return None if own is None or paper is None else own - paper


def accuracy(group: Group, name: str) -> Table:
    """The accuracy matrix of one method."""
    rows: list[tuple[Cell, ...]] = [("plain CLIP", *group.zero_shot)]
    rows += [(task, *row) for task, row in zip(group.tasks, group.matrix, strict=True)]
    return Table(name, f"Accuracy matrix of {group.label}", ("After learning", *group.tasks), tuple(rows))


def confusion(group: Group, name: str) -> Table | None:
    """Where the images of each test set were sent, in percent."""
    if group.confusion is None:
        return None
    rows: list[tuple[Cell, ...]] = [
        (task, *row) for task, row in zip(group.tasks, group.confusion, strict=True)
    ]
    return Table(name, f"Tasks identified by {group.label}", ("Images of", *group.tasks), tuple(rows))


def timings(section: Section) -> Table:
    """Seconds of every run by step and task."""
    rows: list[tuple[Cell, ...]] = []
    for group in section.groups:
        for run in group.runs:
            seed = run.results["seed"]
            rows += [(group.label, seed, event, task, seconds) for event, task, seconds in run.steps]
    header = ("Method", "Seed", "Step", "Task", "Seconds")
    return Table("timings", "Time by step", header, tuple(rows), "Wall time over all sessions of a run.")


def total_timings(section: Section) -> Table:
    """Seconds of every method in all."""
    rows = [(group.label, group.seconds("learn"), group.seconds("measure")) for group in section.groups]
    return Table("times", "Time", ("Method", "Learning, s", "Measuring, s"), tuple(rows))


def configuration(section: Section) -> Table:
    """Every setting of every method, dotted names in lines."""
    flat = [flatten(group.first["method_config"]) for group in section.groups]
    names = sorted({name for one in flat for name in one if name != "seed"})
    rows = tuple((name, *(one.get(name, "") for one in flat)) for name in names)
    header = ("Setting", *(group.label for group in section.groups))
    return Table("configuration", "Configuration", header, rows, "Empty: the method has no such setting.")


def provenance(section: Section) -> Table:
    """What produced the numbers: model, preset, decision rule, status, folder, program and machine."""
    rows = []
    for group in section.groups:
        first = group.first
        versions = ", ".join(f"{name} {version}" for name, version in first["versions"].items())
        folders = ", ".join(run.folder.name for run in group.runs)
        rows.append(
            (
                group.label,
                first["model"],
                first["preset"],
                first["decision"],
                first["status"],
                versions,
                *_traced(first.get("provenance", {})),
                folders,
            )
        )
    traced = ("Commit", "Device", "CLIP SHA-256", "Data SHA-256", "Command")
    header = ("Method", "CLIP", "Preset", "Decision", "Status", "Versions", *traced, "Runs")
    note = "Of the first run; a commit with * had changes. The data's SHA-256 is that of all tasks' digests."
    return Table("provenance", "Where the numbers come from", header, tuple(rows), note)


def _traced(found: Mapping[str, Any]) -> tuple[Cell, ...]:
    """Program, machine, CLIP and data of a run; runs of earlier versions did not record them."""
    if not found:
        return (None,) * 5
    commit = None if found["commit"] is None else found["commit"][:12] + ("*" if found["dirty"] else "")
    device = f"{found['device']}, {found['threads']} {'thread' if found['threads'] == 1 else 'threads'}"
    data = hashlib.sha256(json.dumps(found["data"], sort_keys=True).encode()).hexdigest()
    return commit, device, found["clip"][:12], data[:12], command_line(found["command"])


def command_line(recorded: str) -> str:
    """A recorded command as somebody would type it, wherever the program lay.

    Example:
        >>> from dpw.report.tables import command_line
        >>> command_line("/home/me/env/bin/dpw run mini"), command_line("lib/dpw/__main__.py run mini")
        ('dpw run mini', 'dpw run mini')
    """
    return re.sub(r"^(?:'[^']*|\S*)/(?:dpw|dpw/__main__\.py)'?(?=\s)", "dpw", recorded)


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings by dotted name, values as JSON spells them."""
    flat: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value if isinstance(value, str) else json.dumps(value)
    return flat


def as_csv(table: Table) -> str:
    """All digits; a deviation is a column of its own where there is one."""
    spreads = {
        column
        for row in table.rows
        for column, cell in enumerate(row)
        if isinstance(cell, Spread) and cell.deviation is not None
    }
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    header: list[str] = []
    for column, name in enumerate(table.header):
        header += [name, f"{name} deviation"] if column in spreads else [name]
    writer.writerow(map(csv_cell, header))
    for row in table.rows:
        writer.writerow(map(csv_cell, _csv_row(row, spreads)))
    return text.getvalue()


def _csv_row(row: Sequence[Cell], spreads: set[int]) -> list[Any]:
    """One row with its deviations."""
    cells: list[Any] = []
    for column, cell in enumerate(row):
        cells.append(cell.mean if isinstance(cell, Spread) else cell)
        if column in spreads:
            cells.append(cell.deviation if isinstance(cell, Spread) else None)
    return cells


def shown(cell: Cell) -> str:
    """A cell as a reader wants it: one decimal, thousands apart, a dash for what does not exist."""
    if cell is None:
        return "–"
    if isinstance(cell, float):
        return f"{cell:.1f}"
    if isinstance(cell, int):
        return f"{cell:,}"
    return str(cell)


def exact(cell: Cell) -> Number:
    """The number behind a cell, unrounded, or None for words."""
    if isinstance(cell, Spread):
        return cell.mean
    return None if cell is None or isinstance(cell, str) else cell
