"""Finished runs side by side: seeds averaged, one table a benchmark and protocol, published rows marked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpw.runs.gathering import CONDITIONS, MAIN_METRICS, Group, Section, Spread, read_runs, sections, spread
from dpw.runs.published import EXTRA_DATA, OTHER_RULE, Published, figures_of

MEASURED = "measured"  # the source of a row that was run here


@dataclass(frozen=True)
class Row:
    """One method with one set of settings; `seeds` is empty for a published row."""

    label: str
    protocol: str
    values: Mapping[str, Spread | None]
    parameters: float | None
    seeds: tuple[int, ...] = ()
    source: str = MEASURED
    note: str = ""
    extra_data: bool | None = None

    @property
    def published(self) -> bool:
        """Whether somebody else printed it."""
        return not self.seeds


@dataclass(frozen=True)
class Comparison:
    """Rows measured under the same conditions, and what others have published about the same benchmark."""

    title: str
    conditions: Mapping[str, Any]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


def compare(paths: Sequence[str | Path], *, published: bool = True) -> list[Comparison]:
    """Set finished runs side by side.

    Args:
        paths: folders of finished runs; a folder of runs stands for all finished ones in it.
        published: also give the published figures of a benchmark that was run as it is known.

    Returns:
        A comparison for each set of conditions (benchmark, setting, protocol, shots, CLIP, tasks): runs under
        different ones never share a table. Runs that differ only in their seed are one row.
        `dpw.report.comparison.FORMATS` writes comparisons as text, Markdown, LaTeX or CSV.

    Raises:
        InputError: a folder holds no finished run, or two runs differ in nothing, not even their seed.
        DamagedFileError: a results file was changed or cut off.

    Example:
        >>> import dpw, tempfile
        >>> from dpw.runs.compare import compare
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found = dpw.run_benchmark("mini", method="zero-shot", order=["signs"], output=folder)
        ...     (table,) = compare([folder])
        >>> [(row.label, row.seeds) for row in table.rows]
        [('zero-shot', (0,))]
    """
    found = [_comparison(section, published) for section in sections(read_runs(map(Path, paths)))]
    if len(found) == 1:
        return found
    differing = ", ".join(CONDITIONS[name] for name in CONDITIONS if _differ(found, name))
    note = f"The runs differ in {differing}: there is a table for each, and numbers of two do not compare."
    return [replace(one, notes=(*one.notes, note)) for one in found]


def _differ(found: Sequence[Comparison], name: str) -> bool:
    """Whether one condition is not the same in all comparisons."""
    return len({str(one.conditions[name]) for one in found}) > 1


def _comparison(section: Section, published: bool) -> Comparison:
    """The rows of one section."""
    rows = [_measured(group) for group in section.groups]
    notes = _unequal_seeds(section.groups)
    if any(group.first["decision"] != "per-image" for group in section.groups):
        notes.append("[batch-vote]: all images of a batch share one decision, which tells the method more.")
    if published:
        printed = [_printed(row) for row in section.published]
        rows += printed
        notes.append(_about_published(section.conditions, printed))
        notes += _other_rule(str(section.conditions["benchmark"]))
    return Comparison(section.title, section.conditions, tuple(rows), tuple(notes))


def _unequal_seeds(groups: Sequence[Group]) -> list[str]:
    """A warning where methods were run with different seeds: they saw other draws and splits."""
    if len({group.seeds for group in groups}) == 1:
        return []
    return [
        "Warning: these rows do not share their seeds, so a difference may be that of the seeds: run the "
        "missing ones with 'dpw run ... --seeds'."
    ]


def _other_rule(benchmark: str) -> list[str]:
    """Where the rows of the paper's table are that count equal names in the other way."""
    other = OTHER_RULE.get(benchmark)
    if other is None:
        return []
    methods = ", ".join(row.method for row in figures_of(other))
    return [f"The same table prints {methods} under {other}, where equal names count otherwise."]


def _about_published(conditions: Mapping[str, Any], printed: Sequence[Row]) -> str:
    """What a reader must know before comparing with printed figures."""
    if not printed:
        return f"No figures are published for {conditions['benchmark']} in this form."
    note = "Published figures are copied as printed, for CLIP ViT-B/16 (openai/clip-vit-base-patch16)"
    if any(row.protocol != conditions["protocol"] for row in printed):
        note += f"; those of another protocol than {conditions['protocol']} do not compare directly"
    return f"{note}."


def _measured(group: Group) -> Row:
    """The seeds of one method averaged."""
    values = {metric: group.metric(metric) for metric in MAIN_METRICS}
    note = "reconstruction" if "reconstruction" in group.first["status"] else ""
    return Row(
        group.full_label,
        group.first["protocol"],
        values,
        group.parameters,
        group.seeds,
        note=note,
        extra_data=group.extra_data,
    )


def _printed(row: Published) -> Row:
    """A published row in the same form."""
    values = {metric: spread([getattr(row, metric, None)]) for metric in MAIN_METRICS}
    name = row.method if row.preset == "default" else f"{row.method} ({row.preset})"
    parameters = None if row.parameters is None else row.parameters * 1e6
    extra = EXTRA_DATA.get(row.method)
    return Row(name, row.protocol, values, parameters, (), f"published: {row.source}", row.note, extra)
