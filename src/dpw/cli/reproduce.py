"""`dpw reproduce`: a table or figure of the paper with one command that can be stopped and goes on."""

import csv
import io
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpw.cli.cluster import duration
from dpw.cli.learn import Json
from dpw.cli.output import say, say_lines, say_text, terminal_width
from dpw.cli.public_data import data_root_for, refuse_given
from dpw.cli.run import parse_seeds

if TYPE_CHECKING:
    from dpw.runs.reproduce import Estimate, Reproduction

PAPER_CLIP = "openai/clip-vit-base-patch16"
OF_LENGTHS = "prefix-lengths"  # the figure that table prefix-length is made for


def reproduce(
    table: Annotated[str, typer.Argument(help="A table of the paper, such as mtil or ablations, or all.")],
    plan: Annotated[
        bool, typer.Option("--plan", help="Only say which runs it takes, how long and how much memory.")
    ] = False,
    benchmark: Annotated[
        str | None, typer.Option(help="mini: do the same with the embedded benchmark and CLIP.")
    ] = None,
    output: Annotated[Path, typer.Option(help="Folder of the runs and tables.")] = Path("reproduction"),
    model: Annotated[str, typer.Option(help="CLIP: a folder or a hub name.")] = PAPER_CLIP,
    data_root: Annotated[
        Path | None, typer.Option("--data-root", envvar="DPW_DATA", help="Folder of the public datasets.")
    ] = None,
    seeds: Annotated[str, typer.Option(help="Seeds, as 1,2,3.")] = "1",
    official: Annotated[
        bool,
        typer.Option(
            "--official", help="Lay the settings of the published code below every row that has them."
        ),
    ] = False,
    reference_images: Annotated[str | None, typer.Option(help="Images for zscl and moe-adapters.")] = None,
    reference_sentences: Annotated[str | None, typer.Option(help="Sentences for zscl.")] = None,
    synthetic: Annotated[str | None, typer.Option(help="Folder of images with prompts for gift.")] = None,
    as_json: Json = False,
) -> None:
    """Make a table or figure of the paper again: run what is missing, and set it beside the printed one."""
    from dpw import InputError
    from dpw.runs.config import MINI
    from dpw.runs.paper_tables import refuse_unknown_table

    refuse_unknown_table(table)
    numbers = parse_seeds(None, seeds)
    if benchmark not in (None, MINI):
        raise InputError(f"--benchmark {benchmark}: only {MINI} can stand in for the paper's benchmarks")
    if benchmark == MINI:
        refuse_given({"--model": model if model != PAPER_CLIP else None}, f"--benchmark {MINI}")
        data_root_for(MINI, data_root)
    from dpw.runs.reproduce import Reproduction, estimate

    data = {"reference_images": reference_images, "reference_sentences": reference_sentences}
    wanted = Reproduction(
        table,
        output,
        model,
        None if data_root is None else str(data_root),
        tuple(numbers),
        mini=benchmark == MINI,
        official=official,
        given={name: path for name, path in {**data, "synthetic": synthetic}.items() if path is not None},
    )
    if plan:
        found = estimate(wanted.runs())
        say_text(json.dumps([_as_json(one) for one in found], indent=2) if as_json else _plan(found))
        return
    _carry_out(wanted, as_json)


def _as_json(one: "Estimate") -> dict[str, Any]:
    """One planned run in plain values."""
    config = one.run.config
    return {
        "row": one.run.line.label,
        "benchmark": config.benchmark,
        "protocol": config.protocol,
        "seed": one.run.seed,
        "state": one.run.state,
        "lacks": one.run.lacks,
        "missing_datasets": one.run.missing,
        "train": one.train,
        "test": one.test,
        "steps": one.steps,
        "seconds": one.seconds,
        "memory": one.measured.memory,
        "folder": str(one.run.folder),
    }


def _plan(found: "Sequence[Estimate]") -> str:
    """One line for each run, and the sum of what is left to do."""
    from dpw.report.comparison import aligned

    header = ["row", "benchmark", "state", "seed", "train", "test", "steps", "about", "memory"]
    lines = [header]
    for one in found:
        values = _as_json(one)
        where = " ".join(one.run.conditions)
        counts = [str(values[name]) for name in ("seed", "train", "test", "steps")]
        state = "lacks " + ", ".join(one.run.lacks) if one.run.lacks else one.run.state
        lines.append(
            [one.run.line.label, where, state, *counts, duration(one.seconds), _size(values["memory"])]
        )
    left = sum(one.seconds for one in found if one.run.state != "finished" and not one.run.lacks)
    total = f"to do: about {duration(left)} on this machine, from a few measured steps of every kind of run"
    return "\n".join([*aligned(lines), *_missing(found), total])


def _missing(found: "Sequence[Estimate]") -> list[str]:
    """Which public datasets have to be there first."""
    names = list(dict.fromkeys(name for one in found for name in one.run.missing))
    if not names:
        return []
    root = found[0].run.plan.data_root
    where = "a folder given as --data-root" if root is None else root
    return [f"missing in {where}: {', '.join(names)} (see 'dpw data get' and 'dpw data check')"]


def _size(count: int | None) -> str:
    """Bytes as gigabytes."""
    return "-" if count is None else f"{count / 1e9:.1f} GB"


def _carry_out(wanted: "Reproduction", as_json: bool) -> None:
    """Run what is missing, then write and show the tables."""
    from dpw.cli.run import run_in_terminal
    from dpw.runs.paper_tables import TABLES
    from dpw.runs.reproduce import carry_out, result_notes, result_rows

    carry_out(wanted, run_in_terminal, lambda sentence: say(sentence, err=True))
    written = {}
    for name in TABLES if wanted.table == "all" else [wanted.table]:
        written[name] = result_rows(wanted, name)
        notes = result_notes(wanted, name)
        _write(TABLES[name].title, written[name], notes, wanted.output / name, as_json)
    if wanted.table in ("throughput", "all"):
        written["costs"] = _costs(wanted)
        _write("What every method costs", written["costs"], [], wanted.output / "costs", as_json)
    if wanted.table in ("prefix-length", "all"):
        _draw(wanted, "prefix-length", (OF_LENGTHS,))
    if wanted.table in ("figures", "all"):
        _draw(wanted, "figures", _figures())
    if as_json:
        say_text(json.dumps(written, indent=2))


def _write(title: str, rows: list[list[str]], notes: list[str], base: Path, as_json: bool) -> None:
    """A table as Markdown and CSV, and on the screen unless somebody asked for JSON."""
    from dpw.report.comparison import piped
    from dpw.storage.files import write_bytes

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    page = [f"# {title}", "", *piped(rows), "", *(f"- {note}" for note in notes)]
    write_bytes(base.with_suffix(".md"), ("\n".join(page).rstrip() + "\n").encode())
    write_bytes(base.with_suffix(".csv"), text.getvalue().encode())
    if not as_json:
        say_lines([title, *on_screen(rows, terminal_width()), *notes, f"written to {base}.md and .csv"])


def on_screen(rows: list[list[str]], width: int | None) -> list[str]:
    """Aligned rows without the columns that hold nothing, in several tables where one is too wide.

    Columns that begin with the same word, such as `last found` and `last printed`, stay together.
    """
    header, *found = rows
    told = [c for c in range(1, len(header)) if any(row[c] != "-" for row in found)]
    parts: list[list[int]] = []
    for _, group in itertools.groupby(told, key=lambda column: header[column].split()[0].rstrip(",")):
        columns = list(group)
        if parts and (width is None or max(map(len, _part(rows, [*parts[-1], *columns]))) <= width):
            parts[-1] += columns
        else:
            parts.append(columns)
    return [line for columns in parts for line in ["", *_part(rows, columns)]][1:]


def _part(rows: list[list[str]], columns: list[int]) -> list[str]:
    """The name of every row, and some of its columns."""
    from dpw.report.comparison import WORDS, aligned

    chosen = [0, *columns]
    words = sum(column < WORDS for column in chosen)
    return aligned([[row[column] for column in chosen] for row in rows], words)


def _costs(wanted: "Reproduction") -> list[list[str]]:
    """Measure every method in turn on the CLIP of the table."""
    from dpw.runs.throughput import cost_rows, costs

    found = []
    for one in costs("mini" if wanted.mini else wanted.model):
        say(f"{one.method}: {'measured' if one.measured else one.problem}", err=True)
        found.append(one)
    return cost_rows(found)


def _figures() -> tuple[str, ...]:
    """The figures that look into one run; that of prefix lengths has a table of its own."""
    from dpw.analysis.make import FIGURES, ON_REQUEST

    return tuple(name for name in FIGURES if name not in (*ON_REQUEST, OF_LENGTHS))


def _draw(wanted: "Reproduction", table: str, only: Sequence[str]) -> None:
    """The figures of a table from its runs; the first one is looked into, the others stand beside it."""
    from dpw.analysis import make_figures
    from dpw.runs.paper_tables import TABLES
    from dpw.runs.reproduce import PlannedRun

    first, *beside = (PlannedRun(wanted, line, wanted.seeds[0]).folder for line in TABLES[table].lines)
    make_figures(first, wanted.output / "figures", beside=beside, only=only)
    say(f"figures in {wanted.output / 'figures'}", err=True)
