"""Comparison tables as text for a terminal, Markdown, LaTeX or CSV."""

import csv
import io
import textwrap
from collections.abc import Callable, Sequence

from dpw.report import tables as report_tables
from dpw.report.tables import Table, shown, yes_or_no
from dpw.runs.compare import MEASURED, Comparison, Row
from dpw.runs.gathering import MAIN_METRICS, METRICS, Spread
from dpw.storage.csv_file import csv_cell

HEADER = (
    *("method", "source", "protocol", "seeds"),
    *(METRICS[name] for name in MAIN_METRICS),
    *("learned", "extra data"),
)
WORDS = 3  # columns of words before the numbers
LATEX_SPECIAL = {"_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "{": r"\{", "}": r"\}", "±": r"$\pm$"}


def cells(row: Row) -> list[str]:
    """A row as it is read, in the order of the header."""
    name = f"{row.label} ({row.note})" if row.note and not row.published else row.label
    seeds = ",".join(map(str, row.seeds)) or "-"
    values = [str(row.values[metric] or "-") for metric in MAIN_METRICS]
    size, extra = count(row.parameters), yes_or_no(row.extra_data) or "-"
    return [name, row.source, row.protocol, seeds, *values, size, extra]


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


def aligned(lines: Sequence[Sequence[str]], words: int = WORDS) -> list[str]:
    """Rows of cells as lines for a terminal; the first columns are words."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column < words else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def piped(lines: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines of a Markdown table, the header first."""
    rule = "|---" * WORDS + "|" + "---:|" * (len(lines[0]) - WORDS)
    rows = [f"| {' | '.join(line)} |" for line in lines]
    return [rows[0], rule, *rows[1:]]


def as_text(tables: Sequence[Comparison], width: int | None = None) -> str:
    """Aligned columns for a terminal of a width; where they are wider, words stand apart from the numbers."""
    parts = []
    for table in tables:
        lines = [list(HEADER), *(cells(row) for row in table.rows)]
        shown = aligned(lines)
        if width is not None and max(map(len, shown)) > width:
            shown = _numbers_then_words(lines, width)
        remarks = notes(table) if width is None else [textwrap.fill(note, width) for note in notes(table)]
        parts.append("\n".join([table.title, *shown, *remarks]))
    return "\n\n".join(parts) + "\n"


def _numbers_then_words(lines: Sequence[Sequence[str]], width: int) -> list[str]:
    """The numbers of every row, then what kind of row it is, in sentences.

    A published row bears a star, for a method may stand there twice.
    """
    about = [HEADER.index(name) for name in ("source", "protocol", "seeds", "extra data")]
    numbers = [column for column in range(1, len(HEADER)) if column not in about]
    names = [HEADER[0], *(line[0] if line[1] == MEASURED else f"{line[0]} *" for line in lines[1:])]
    table = [
        [name, *(line[column].replace(" ± ", "±") for column in numbers)]
        for name, line in zip(names, lines, strict=True)
    ]
    sentences = []
    for column in about:
        which: dict[str, list[str]] = {}
        for name, line in zip(names[1:], lines[1:], strict=True):
            which.setdefault(line[column], []).append(name)
        which.pop("-", None)
        for value, those in which.items():
            rows = "all rows" if len(those) == len(lines) - 1 else ", ".join(those)
            sentences.append(
                textwrap.fill(f"{HEADER[column]} {value}: {rows}", width, subsequent_indent="  ")
            )
    return [*_within(table, width), *sentences]


def _within(table: Sequence[Sequence[str]], width: int) -> list[str]:
    """Names and numbers; a name for which a line has no room gets one of its own."""
    shown = aligned(table, words=1)
    room = width - max(map(len, shown)) + max(len(row[0]) for row in table)
    long = [len(row[0]) > room for row in table]
    if room < len(table[0][0]) or not any(long):
        return shown
    cut = aligned([["" if one else row[0], *row[1:]] for row, one in zip(table, long, strict=True)], words=1)
    return [
        line for row, one, rest in zip(table, long, cut, strict=True) for line in ([row[0]] * one + [rest])
    ]


def as_markdown(tables: Sequence[Comparison]) -> str:
    """Tables for a page."""
    parts = []
    for table in tables:
        lines = piped([list(HEADER), *(cells(row) for row in table.rows)])
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
    return latex_line(cells(row))


def latex_line(line: Sequence[str]) -> str:
    """Cells as one line of a LaTeX table."""
    escaped = ["".join(LATEX_SPECIAL.get(letter, letter) for letter in cell) for cell in line]
    return " & ".join(escaped) + r" \\"


def as_csv(tables: Sequence[Comparison]) -> str:
    """One line a row with full numbers; mean and deviation have columns of their own."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = [name for metric in MAIN_METRICS for name in (metric, f"{metric}_deviation")]
    head = ["benchmark", "setting", "model", "method", "source", "protocol", "seeds"]
    writer.writerow([*head, *columns, "parameters", "extra_data", "note"])
    for table in tables:
        shown = table.conditions
        for row in table.rows:
            model = "ViT-B/16" if row.published else shown["model"]
            names = [shown["benchmark"], shown["setting"], model, row.label, row.source, row.protocol]
            numbers = [number for metric in MAIN_METRICS for number in _numbers(row.values[metric])]
            rest = [row.parameters, yes_or_no(row.extra_data), row.note]
            writer.writerow(map(csv_cell, [*names, " ".join(map(str, row.seeds)), *numbers, *rest]))
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


def table_text(table: Table) -> str:
    """A report's table for a terminal."""
    lines = aligned([table.header, *([shown(cell) for cell in row] for row in table.rows)])
    return "\n".join([table.title, *lines, table.note]) + "\n"


def table_markdown(table: Table) -> str:
    """A report's table for a page."""
    lines = piped([table.header, *([shown(cell) for cell in row] for row in table.rows)])
    return "\n".join([f"**{table.title}**", "", *lines, "", table.note]) + "\n"


def table_latex(table: Table) -> str:
    """A report's table for a paper."""
    rows = [latex_line([shown(cell) for cell in row]) for row in table.rows]
    columns = "l" * WORDS + "r" * (len(table.header) - WORDS)
    head = [f"% {table.title}", rf"\begin{{tabular}}{{{columns}}}", r"\toprule", latex_line(table.header)]
    return "\n".join([*head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}", f"% {table.note}"]) + "\n"


TABLE_FORMATS: dict[str, Callable[[Table], str]] = {
    "text": table_text,
    "markdown": table_markdown,
    "latex": table_latex,
    "csv": report_tables.as_csv,
}
