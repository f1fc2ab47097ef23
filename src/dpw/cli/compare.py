"""`dpw compare`: finished runs side by side, and beside what others have published."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dpw.cli.output import say


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
) -> None:
    """Compare finished runs: seeds averaged, one table for each benchmark and protocol."""
    from dpw.report.comparison import FORMATS
    from dpw.runs.compare import compare as tables_of

    say(FORMATS[form.value](tables_of(runs, published=published)), nl=False)
