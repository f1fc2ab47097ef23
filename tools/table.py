"""Run every method on `mini` with three seeds and write docs/results.md: `python tools/table.py`.

Finished runs are not repeated and interrupted ones go on, so the command may be stopped at any time.
"""

import argparse
import re
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from made_section import replace as replace_section
from one_thread import run_dpw

from dpw.methods import METHODS
from dpw.report.comparison import as_markdown
from dpw.runs.compare import Comparison, Row, compare
from dpw.runs.published import figures_of
from dpw.storage.run_folder import RunFolder

PAGE = Path(__file__).parents[1] / "docs" / "results.md"
ALREADY_SAID = ("source", "protocol", "seeds")  # by the words around the table
SLOW = ("moe-adapters", "gift")  # these begin, so that no core waits for one of them in the end


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; what is not known here is passed on to `dpw run`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmark", default="mini")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--jobs", type=int, default=2, help="methods at once, one thread each")
    parser.add_argument("--runs", type=Path, default=Path("runs/table"))
    parser.add_argument("--page", type=Path, default=PAGE)
    known, rest = parser.parse_known_args(given)
    known.rest = rest
    return known


def command(method: str, options: argparse.Namespace) -> list[str]:
    """What is run for a method: all its seeds, each in a folder of its own."""
    single = f"{method}-seed{options.seeds}" if "," not in options.seeds else ""
    asked = ["run", options.benchmark, "--method", method, "--seeds", options.seeds]
    return [*asked, "--output", str(options.runs / single), *options.rest]


def run_method(method: str, options: argparse.Namespace) -> tuple[str, float, str]:
    """All seeds of a method in a process of its own; gives its name, its time, and what went wrong."""
    began = time.monotonic()
    error = run_dpw(command(method, options))
    return method, time.monotonic() - began, error


def run_all(options: argparse.Namespace) -> list[str]:
    """Every method, some at a time; gives those that failed."""
    methods, failed = sorted(options.methods.split(","), key=lambda name: name not in SLOW), []
    with ThreadPoolExecutor(options.jobs) as pool:
        for future in as_completed([pool.submit(run_method, name, options) for name in methods]):
            method, seconds, error = future.result()
            print(f"{method:<14}{seconds:7.0f} s  {'failed' if error else ''}", flush=True)
            if error:
                print(error, file=sys.stderr)
                failed.append(method)
    return failed


def folders(options: argparse.Namespace) -> list[Path]:
    """The runs that the page is about, whatever else lies beside them."""
    pairs = [(name, seed) for name in options.methods.split(",") for seed in options.seeds.split(",")]
    wanted = [options.runs / f"{name}-seed{seed}" for name, seed in pairs]
    return [folder for folder in wanted if RunFolder(folder).finished]


def section(options: argparse.Namespace) -> str:
    """The part of the page that the runs decide."""
    found = folders(options)
    tables = [best_first(table) for table in compare(found)]
    spent = sum(sum(RunFolder(folder).read_results()["seconds"].values()) for folder in found) / 60
    sentences = [
        f"{len(found)} runs, mean ± sample deviation over the seeds {options.seeds}.",
        f"Learning and measuring took {spent:.0f} minutes of one thread in all.",
    ]
    lines = [" ".join(sentences), "", without_the_same(as_markdown(tables))]
    return "\n".join([*lines, *(ranks(table) for table in tables)])


def without_the_same(text: str) -> str:
    """Tables in Markdown without the columns source, protocol and seeds where all their rows agree.

    The words around the table say them, and the page shows its numbers without scrolling.
    """
    parts = re.split(r"((?:^\|.*\n)+)", text, flags=re.MULTILINE)
    return "".join(_narrow(part) if part.startswith("|") else part for part in parts)


def _narrow(table: str) -> str:
    """One table of that kind."""
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
    rows[1] = table.splitlines()[1].strip("|").split("|")
    same = [
        name in ALREADY_SAID and len({row[at] for row in rows[2:]}) == 1 for at, name in enumerate(rows[0])
    ]
    kept = [[cell for cell, left_out in zip(row, same, strict=True) if not left_out] for row in rows]
    lines = [f"| {' | '.join(row)} |" for row in kept]
    lines[1] = f"|{'|'.join(kept[1])}|"
    return "\n".join(lines) + "\n"


def best_first(table: Comparison) -> Comparison:
    """Rows by their mean, or their Last where a method has no Transfer."""

    def score(row: Row) -> tuple[bool, float]:
        """Methods without a mean come last."""
        mean, last = (row.values[name] for name in ("mean", "last"))
        shown = mean or last
        return mean is not None, shown.mean if shown else 0.0

    return replace(table, rows=tuple(sorted(table.rows, key=score, reverse=True)))


def ranks(table: Comparison) -> str:
    """The order of the methods here beside that of the published means on MTIL (order I)."""
    printed = {row.method: row.mean for row in figures_of("mtil") if row.preset == "default"}
    here = {row.label: row.values["mean"] for row in table.rows if row.label in printed}
    measured = {name: value.mean for name, value in here.items() if value is not None}
    ours = sorted(measured, key=lambda name: -measured[name])
    theirs = sorted(measured, key=lambda name: -printed[name])
    lines = ["The same methods by their mean here, and by the published mean on MTIL order I:", ""]
    lines += ["| method | here | rank | on MTIL | rank on MTIL |", "|---|---:|---:|---:|---:|"]
    for name in ours:
        rank, printed_rank = (order.index(name) + 1 for order in (ours, theirs))
        lines.append(f"| {name} | {measured[name]:.1f} | {rank} | {printed[name]:.1f} | {printed_rank} |")
    return "\n".join(lines) + "\n"


def main(given: Sequence[str] | None = None) -> None:
    """Run, then write."""
    options = arguments(given)
    failed = run_all(options)
    replace_section(options.page, "table", section(options))
    print(f"wrote {options.page}")
    if failed:
        sys.exit(f"these methods failed and are not in the table: {', '.join(failed)}")


if __name__ == "__main__":
    main()
