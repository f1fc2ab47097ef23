"""`dpw compare`: finished runs side by side, and beside what others have published."""

import shutil
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dpw.cli.output import say_text


class Format(StrEnum):
    """How the table is written."""

    text = "text"
    markdown = "markdown"
    latex = "latex"
    csv = "csv"


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished runs, or a folder of runs.")],
    form: Annotated[Format, typer.Option("--format", help="How the table is written.")] = Format.text,
    published: Annotated[bool, typer.Option(help="Also show the published figures.")] = True,
    by_dataset: Annotated[
        bool, typer.Option("--by-dataset", help="Every dataset beside its published figure.")
    ] = False,
) -> None:
    """Compare finished runs: seeds averaged, one table for each benchmark and protocol."""
    from dpw.report.comparison import FORMATS, TABLE_FORMATS, as_text
    from dpw.report.tables import by_dataset as dataset_table
    from dpw.runs.compare import compare as tables_of
    from dpw.runs.gathering import read_runs, sections

    if by_dataset:
        found = [(section.title, dataset_table(section)) for section in sections(read_runs(runs))]
        tables = [replace(table, title=f"{table.title}: {title}") for title, table in found]
        say_text("\n".join(TABLE_FORMATS[form.value](table) for table in tables), nl=False)
        return
    compared = tables_of(runs, published=published)
    if form is Format.text:
        say_text(as_text(compared, shutil.get_terminal_size().columns), nl=False)
    else:
        say_text(FORMATS[form.value](compared), nl=False)
