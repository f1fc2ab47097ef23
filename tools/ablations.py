"""The paper's analysis tables on `mini`, written into docs/ablations.md: `python tools/ablations.py`.

Finished runs are not repeated and interrupted ones go on, so the command may be stopped at any time. What is
not finished is left out of the page, which says how many seeds each row has. `--jobs 0` only writes the page.
"""

import argparse
import statistics
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from made_section import replace as replace_section
from one_thread import run_dpw

from dpw.runs.gathering import spread
from dpw.runs.paper_tables import TABLES, Line
from dpw.runs.reproduce import METRICS, PlannedRun, Reproduction

PAGE = Path(__file__).parents[1] / "docs" / "ablations.md"
ANALYSES = "ablations,condact,scores,adapter-weight,adapter,heads,cutoff,prefix-length"
AS_PRINTED, OPPOSITE, UNCLEAR = "as printed", "opposite", "unclear"
# What a fixed cut-off is to the dynamic one: the figure prints no numbers, the text calls all of them worse.
FIGURES = {"cutoff": -1.0}

Results = Mapping[int, Mapping[str, float]]  # the metrics of a row by seed
Judged = tuple[str, str, str, str, float | None]  # method, preset, settings, metric, printed difference


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", default=ANALYSES, help="in the order in which they are made")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--jobs", type=int, default=3, help="seeds at once, one thread each; 0 only writes")
    parser.add_argument("--runs", type=Path, default=Path("runs/ablations"))
    parser.add_argument("--page", type=Path, default=PAGE)
    return parser.parse_args(given)


def run_seed(table: str, seed: str, options: argparse.Namespace) -> str:
    """One table with one seed in a process of its own; gives what went wrong."""
    asked = ["reproduce", table, "--benchmark", "mini", "--seeds", seed, "--output", str(options.runs)]
    error = run_dpw(asked)
    print(f"{table}, seed {seed}: {'failed' if error else 'done'}", flush=True)
    return error


def run_tables(seed: str, options: argparse.Namespace) -> list[str]:
    """All tables of one seed, one after the other, because they share runs; gives what went wrong."""
    return [error for table in options.tables.split(",") if (error := run_seed(table, seed, options))]


def run_all(options: argparse.Namespace) -> list[str]:
    """Every seed, some at a time; gives what went wrong."""
    if not options.jobs:
        return []
    with ThreadPoolExecutor(options.jobs) as pool:
        begun = [pool.submit(run_tables, seed, options) for seed in options.seeds.split(",")]
        return [error for future in begun for error in future.result()]


# ------------------------------------------------------------------------------------------------- the page


def results_of(line: Line, options: argparse.Namespace) -> Results:
    """What every finished seed of a row found."""
    seeds = tuple(int(seed) for seed in options.seeds.split(","))
    plan = Reproduction("all", options.runs, seeds=seeds, mini=True)
    found = {seed: PlannedRun(plan, line, seed).results() for seed in seeds}
    return {seed: results["metrics"] for seed, results in found.items() if results is not None}


def verdict(differences: Sequence[float], printed: float | None) -> str:
    """Whether a row differs from the whole method as the paper prints it.

    A difference of the same seeds is clear if it is more than twice its own standard error.
    """
    if printed is None or len(differences) < 2:
        return "-"
    error = statistics.stdev(differences) / len(differences) ** 0.5
    mean = statistics.fmean(differences)
    if abs(mean) <= 2 * error:
        return UNCLEAR
    return AS_PRINTED if mean * printed > 0 else OPPOSITE


def printed_difference(table: str, line: Line, whole: Line, metric: str) -> float | None:
    """How a row differs from the whole method in the paper; of a figure without numbers only which way."""
    if line.printed is not None and whole.printed is not None:
        return float(getattr(line.printed, metric) - getattr(whole.printed, metric))
    return FIGURES.get(table)


def cells(
    table: str, line: Line, whole: Line, options: argparse.Namespace
) -> tuple[list[str], dict[Judged, str]]:
    """One row of the page, and its verdicts; a run that two tables print alike has the same ones."""
    own, full = results_of(line, options), results_of(whole, options)
    shown = [line.label, str(len(own))]
    shown += [str(spread([one[metric] for one in own.values()]) or "-") for metric in METRICS]
    if line is whole or line.method != whole.method:
        return [*shown, *[""] * len(METRICS)], {}
    verdicts: dict[Judged, str] = {}
    for metric in METRICS:
        differences = [own[seed][metric] - full[seed][metric] for seed in own if seed in full]
        printed = printed_difference(table, line, whole, metric)
        said = verdict(differences, printed)
        there = "" if printed is None or line.printed is None else f" ({printed:+.1f})"
        shown.append(f"{statistics.fmean(differences):+.1f}{there}: {said}" if differences else "-")
        if said != "-":
            verdicts[line.method, line.preset, str(dict(line.settings)), metric, printed] = said
    return shown, verdicts


def section(options: argparse.Namespace) -> str:
    """The part of the page that the runs decide."""
    parts, judged = list[str](), dict[Judged, str]()
    for name in options.tables.split(","):
        lines = TABLES[name].lines
        whole = next(line for line in lines if line.preset == "default")
        rows = []
        for line in lines:
            shown, verdicts = cells(name, line, whole, options)
            rows.append(f"| {' | '.join(shown)} |")
            judged |= verdicts
        head = ["row", "seeds", *METRICS, *(f"{metric} against {whole.label}" for metric in METRICS)]
        rule = "|---|" + "---:|" * (len(head) - 1)
        parts.append("\n".join([f"### {TABLES[name].title}", "", f"| {' | '.join(head)} |", rule, *rows]))
    counted = Counter(judged.values())
    said = ", ".join(f"{counted[word]} {word}" for word in (AS_PRINTED, OPPOSITE, UNCLEAR))
    parts.append(
        f"Differences from the whole method that can be judged, each counted once: {len(judged)}; {said}."
    )
    return "\n\n".join(parts)


def main(given: Sequence[str] | None = None) -> None:
    """Run, then write."""
    options = arguments(given)
    errors = run_all(options)
    replace_section(options.page, "ablations", section(options))
    print(f"wrote {options.page}")
    if errors:
        sys.exit("\n".join(errors))


if __name__ == "__main__":
    main()
