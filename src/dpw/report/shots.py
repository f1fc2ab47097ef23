"""Accuracy over images per class: one line for each method, from runs that differ in their shots."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpw.report.style import MADE_BY, looks, new_figure, save_figure, style
from dpw.runs.gathering import Spread, spread
from dpw.storage import files
from dpw.storage.csv_file import csv_cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "shots"  # of the picture and of the table
SHOWN = {"last": "Last", "transfer": "Transfer"}
ALIKE = 0.1  # points of accuracy that nobody sees in a picture
GAPS = (0, (2.5, 2.5))
COLUMNS = ["method", "shots", *SHOWN, *(f"{metric}_deviation" for metric in SHOWN)]

Curve = dict[int, Spread]  # images of a class to an accuracy, mean and deviation over seeds


def shot_curves(results: Sequence[Mapping[str, Any]], metric: str) -> dict[str, Curve]:
    """A metric of every method by images of a class, over the seeds that were run."""
    found: dict[str, dict[int, list[float | None]]] = {}
    for one in results:
        values = found.setdefault(str(one["method"]), {}).setdefault(int(one["shots"]), [])
        values.append(one["metrics"][metric])
    spreads = {
        method: {shots: spread(values) for shots, values in sorted(curve.items())}
        for method, curve in found.items()
    }
    return {
        method: {shots: one for shots, one in curve.items() if one is not None}
        for method, curve in spreads.items()
    }


def draw_shots(results: Sequence[Mapping[str, Any]]) -> "Figure":
    """Last and Transfer over images of a class; a bar is one deviation over the seeds."""
    with style():
        figure, axes = new_figure(7.2, 3.3, 1, len(SHOWN), sharex=True)
        for axis, (metric, title) in zip(axes, SHOWN.items(), strict=True):
            _draw_curves(axis, shot_curves(results, metric))
            axis.set_title(title)
        axes[0].set_ylabel("accuracy, %")
        figure.supxlabel("training images of each class", fontsize=9)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return figure


def _draw_curves(axis: "Axes", curves: Mapping[str, Curve]) -> None:
    """All methods in one plot, the number of images on a logarithmic scale."""
    shades = looks(list(curves))
    for number, (method, curve) in enumerate(curves.items()):
        look, before = shades[method], list(curves.values())[:number]
        axis.errorbar(
            list(curve),
            [one.mean for one in curve.values()],
            yerr=[one.deviation or 0.0 for one in curve.values()],
            color=look.colour,
            # A curve that lies on another one leaves gaps in which that one is seen.
            linestyle=GAPS if any(_alike(curve, other) for other in before) else look.dash,
            marker=look.marker,
            capsize=2,
            label=method,
        )
    shots = sorted({number for curve in curves.values() for number in curve})
    axis.set_xscale("log", base=2)
    axis.set_xticks(shots, [str(number) for number in shots])
    axis.minorticks_off()
    axis.grid(axis="y")


def _alike(curve: Curve, other: Curve) -> bool:
    """Whether two curves would be drawn in the same place."""
    return curve.keys() == other.keys() and all(
        abs(one.mean - other[shots].mean) < ALIKE for shots, one in curve.items()
    )


def refuse_foreign(folder: Path) -> None:
    """Refuse to replace files of others that are called as the ones that `write_shots` writes."""
    files.refuse_foreign_file(folder / f"{NAME}.csv", ",".join(COLUMNS).encode())
    for kind in ("svg", "png"):
        files.refuse_foreign_file(folder / f"{NAME}.{kind}", MADE_BY.encode())


def write_shots(results: Sequence[Mapping[str, Any]], folder: Path) -> Path:
    """Write `shots.png`, `.svg` and `.csv` beside the runs; gives the picture.

    Args:
        results: results of runs under one benchmark, each with its `shots`.
        folder: where the files go.

    Raises:
        InputError: matplotlib is not installed.
    """
    refuse_foreign(folder)
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(COLUMNS)
    curves = {metric: shot_curves(results, metric) for metric in SHOWN}
    for method in curves["last"]:
        for shots in curves["last"][method]:
            found = [curves[metric][method].get(shots) for metric in SHOWN]
            means = ["" if one is None else f"{one.mean:.2f}" for one in found]
            deviations = [
                "" if one is None or one.deviation is None else f"{one.deviation:.2f}" for one in found
            ]
            writer.writerow([csv_cell(method), shots, *means, *deviations])
    files.write_bytes(folder / f"{NAME}.csv", table.getvalue().encode())
    figure = draw_shots(results)
    for kind in ("svg", "png"):
        save_figure(figure, folder / f"{NAME}.{kind}")
    return folder / f"{NAME}.png"
