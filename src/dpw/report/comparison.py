"""Comparison tables as text for a terminal, Markdown, LaTeX or CSV."""

import csv
import io
from collections.abc import Callable, Sequence

from dpw.runs.compare import Comparison, Row
from dpw.runs.gathering import MAIN_METRICS, METRICS, Spread
from dpw.storage.files import csv_cell

HEADER = ("method", "source", "protocol", "seeds", *(METRICS[name] for name in MAIN_METRICS), "learned")
LATEX_SPECIAL = {"_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "{": r"\{", "}": r"\}", "±": r"$\pm$"}


def cells(row: Row) -> list[str]:
    """A row as it is read, in the order of the header."""
    name = f"{row.label} ({row.note})" if row.note and not row.published else row.label
    seeds = str(len(row.seeds)) if row.seeds else "-"
    values = [str(row.values[metric] or "-") for metric in MAIN_METRICS]
    return [name, row.source, row.protocol, seeds, *values, count(row.parameters)]


def count(parameters: float | None) -> str:
    """A number of parameters by its size."""
    if parameters is None:
        return "-"
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if parameters >= size:
            return f"{parameters / size:.1f} {letter}"
    return f"{parameters:.0f}"


def notes(table: Comparison) -> list[str]:
    """The table's notes and those of single published rows."""
    return [*table.notes, *(f"{row.label}, {row.source}: {row.note}." for row in _noted(table))]


def _noted(table: Comparison) -> list[Row]:
    """Published rows with something to say about them."""
    return [row for row in table.rows if row.published and row.note]


def as_text(tables: Sequence[Comparison]) -> str:
    """Aligned columns for a terminal."""
    parts = []
    for table in tables:
        lines = [list(HEADER), *(cells(row) for row in table.rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]
        aligned = [
            "  ".join(
                cell.ljust(width) if column < 3 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        parts.append("\n".join([table.title, *aligned, *notes(table)]))
    return "\n\n".join(parts) + "\n"


def as_markdown(tables: Sequence[Comparison]) -> str:
    """Tables for a page."""
    parts = []
    for table in tables:
        lines = [f"| {' | '.join(HEADER)} |", "|---|---|---|" + "---:|" * (len(HEADER) - 3)]
        lines += [f"| {' | '.join(cells(row))} |" for row in table.rows]
        remarks = [f"- {note}" for note in notes(table)]
        parts.append("\n".join([f"**{table.title}**", "", *lines, "", *remarks]).rstrip())
    return "\n\n".join(parts) + "\n"


def as_latex(tables: Sequence[Comparison]) -> str:
    """Tables for a paper, with booktabs rules; published rows stand below a rule."""
    parts = []
    for table in tables:
        measured = [_latex_row(row) for row in table.rows if not row.published]
        printed = [_latex_row(row) for row in table.rows if row.published]
        columns, header = "lll" + "r" * (len(HEADER) - 3), " & ".join(HEADER) + r" \\"
        lines = [f"% {table.title}", rf"\begin{{tabular}}{{{columns}}}", r"\toprule", header, r"\midrule"]
        lines += [*measured, *([r"\midrule", *printed] if printed else []), r"\bottomrule", r"\end{tabular}"]
        parts.append("\n".join([*lines, *(f"% {note}" for note in notes(table))]))
    return "\n\n".join(parts) + "\n"


def _latex_row(row: Row) -> str:
    """One line of a LaTeX table."""
    escaped = ["".join(LATEX_SPECIAL.get(letter, letter) for letter in cell) for cell in cells(row)]
    return " & ".join(escaped) + r" \\"


def as_csv(tables: Sequence[Comparison]) -> str:
    """One line a row with full numbers; mean and deviation have columns of their own."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = [name for metric in MAIN_METRICS for name in (metric, f"{metric}_deviation")]
    head = ["benchmark", "setting", "model", "method", "source", "protocol", "seeds"]
    writer.writerow([*head, *columns, "parameters", "note"])
    for table in tables:
        shown = table.conditions
        for row in table.rows:
            model = "ViT-B/16" if row.published else shown["model"]
            names = [shown["benchmark"], shown["setting"], model, row.label, row.source, row.protocol]
            numbers = [number for metric in MAIN_METRICS for number in _numbers(row.values[metric])]
            cells = [*names, " ".join(map(str, row.seeds)), *numbers, row.parameters, row.note]
            writer.writerow(map(csv_cell, cells))
    return out.getvalue()


def _numbers(value: Spread | None) -> tuple[float | None, float | None]:
    """Mean and deviation, as two cells."""
    return (None, None) if value is None else (value.mean, value.deviation)


FORMATS: dict[str, Callable[[Sequence[Comparison]], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "latex": as_latex,
    "csv": as_csv,
}
