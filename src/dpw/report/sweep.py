"""A sweep as a picture: the score of every point, the best first."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpw.report.style import looks, need_matplotlib, new_figure, save_figure


def draw_scores(rows: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """The last score of every point by its rank; a point that was ended early is hollow."""
    need_matplotlib()
    figure, (axis,) = new_figure(6.5, 4)
    methods = list(dict.fromkeys(str(row["method"]) for row in rows))
    chosen, most = looks(methods), max(int(row["tasks"]) for row in rows)
    for method in methods:
        own = [(place, row) for place, row in enumerate(rows, 1) if row["method"] == method and row["tasks"]]
        colour = chosen[method].colour
        for place, row in own:
            whole = row["tasks"] == most
            axis.scatter(place, row["score"], s=36, color=colour if whole else "none", edgecolors=colour)
        axis.scatter([], [], s=36, color=colour, label=method)
    axis.scatter([], [], s=36, color="none", edgecolors="grey", label="ended early: over fewer tasks")
    axis.set_xlabel("points, the best first")
    axis.set_ylabel("accuracy on validation images, %")
    axis.legend(frameon=False)
    save_figure(figure, path)
    return path
