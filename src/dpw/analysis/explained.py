"""The picture of an explanation: the image, its likely tasks, and what its tokens took."""

import math
from typing import TYPE_CHECKING

from dpw.analysis.drawings import overlay, show_image
from dpw.analysis.explain import Explanation, TaskLikelihood, TokenWeights
from dpw.errors import InputError
from dpw.report.style import BLUE, GREY, need_matplotlib, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor

MOST_COLUMNS = 6
SMALLEST_SCALE = 0.01  # a map of nothing stays dark instead of showing rounding
TASKS_SHOWN = 8


def draw_explanation(data: Explanation) -> "Figure":
    """Above: image, mean maps and task likelihoods; below: both maps block by block."""
    need_matplotlib()
    from matplotlib.figure import Figure

    blocks = 0 if data.tokens is None else len(data.tokens.prefix)
    bands = math.ceil(blocks / MOST_COLUMNS)
    columns = math.ceil(blocks / max(bands, 1))
    with style():
        figure = Figure(figsize=(7.6, 2.6 + 2.35 * bands), layout="constrained")
        figure.get_layout_engine().set(h_pad=0.08, w_pad=0.06)  # type: ignore[union-attr,call-arg]
        parts = figure.subfigures(1 + bands, 1, height_ratios=[2.4, *([2.35] * bands)], squeeze=False)[:, 0]
        above = parts[0].subplots(1, 4, width_ratios=(1, 1, 1, 1.25))
        for axis in above[:3]:
            axis.set_anchor("N")
        show_image(above[0], data.pixels)
        above[0].set_title(_answer(data))
        if data.tokens is None:
            for axis in above[1:3]:
                axis.set_axis_off()
        else:
            _means(above[1:3], data.pixels, data.tokens)
            for band in range(bands):
                _blocks(parts[1 + band], data, band * columns, columns)
        _likelihoods(above[3], data.tasks)
    return figure


def draw_block(data: Explanation, block: int) -> "Figure":
    """What the tokens took of one block, counted from 0: the image and both maps, large."""
    need_matplotlib()
    from matplotlib.figure import Figure

    if data.tokens is None or not 0 <= block < len(data.tokens.prefix):
        raise InputError(f"there is no block {block + 1} to show: this model has no weights by token for it")
    with style():
        figure = Figure(figsize=(7.6, 2.9), layout="constrained")
        axes = figure.subplots(1, 3)
        show_image(axes[0], data.pixels)
        axes[0].set_title(_answer(data))
        for axis, values, name in zip(
            axes[1:], (data.tokens.prefix, data.tokens.adapter), ("prefixes", "adapter"), strict=True
        ):
            drawn = overlay(axis, data.pixels, values[block], 0.0, _top(values))
            axis.set_title(f"{name}\nblock {block + 1}")
            bar = figure.colorbar(drawn, ax=axis, orientation="horizontal", fraction=0.06, pad=0.03)
            bar.ax.locator_params(nbins=3)
    return figure


def _answer(data: Explanation) -> str:
    """The prediction in two short lines."""
    label = data.prediction.label or ""
    label = label if len(label) <= 20 else label[:19] + "…"
    return f"{label}\n{100 * (data.prediction.probability or 0):.0f} %"


def _means(axes: "list[Axes]", pixels: object, tokens: TokenWeights) -> None:
    """Both maps averaged over the blocks, each on a scale of its own."""
    for axis, values, name in zip(
        axes, (tokens.prefix, tokens.adapter), ("prefixes", "adapter"), strict=True
    ):
        mean = values.mean(dim=0)
        drawn = overlay(axis, pixels, mean, 0.0, _top(mean))  # type: ignore[arg-type]
        axis.set_title(f"{name}\nmean over blocks")
        bar = axis.figure.colorbar(drawn, ax=axis, orientation="horizontal", fraction=0.06, pad=0.03)
        bar.ax.locator_params(nbins=3)
        bar.ax.tick_params(labelsize=7)


def _blocks(part: object, data: Explanation, start: int, columns: int) -> None:
    """Two rows of maps for some blocks, all on the scale of their row's largest value."""
    assert data.tokens is not None
    axes = part.subplots(2, columns, squeeze=False)  # type: ignore[attr-defined]
    for row, (values, name) in enumerate(
        ((data.tokens.prefix, "prefixes"), (data.tokens.adapter, "adapter"))
    ):
        for column in range(columns):
            axis, block = axes[row, column], start + column
            if block >= len(values):
                axis.set_axis_off()
                continue
            drawn = overlay(axis, data.pixels, values[block], 0.0, _top(values))
            if row == 0:
                axis.set_title(f"block {block + 1}", fontweight="normal")
        axes[row, 0].set_ylabel(name)
        bar = part.colorbar(drawn, ax=list(axes[row]), fraction=0.02, pad=0.01)  # type: ignore[attr-defined]
        bar.ax.locator_params(nbins=3)
        bar.ax.tick_params(labelsize=7)


def _top(values: "Tensor") -> float:
    """The upper end of a colour scale."""
    return max(float(values.max()), SMALLEST_SCALE)


def _likelihoods(axis: "Axes", tasks: list[TaskLikelihood]) -> None:
    """Confidence for the likeliest tasks."""
    if not tasks:
        axis.set_axis_off()
        return
    shown = tasks[:TASKS_SHOWN]
    axis.barh(
        range(len(shown)), [one.confidence for one in shown], color=[BLUE, *([GREY] * (len(shown) - 1))]
    )
    axis.set_yticks(range(len(shown)), [one.task for one in shown])
    axis.invert_yaxis()
    axis.set_xlim(0, 1.2)
    axis.set_xticks([0, 0.5, 1])
    for index, one in enumerate(shown):
        axis.text(one.confidence + 0.02, index, f"{one.confidence:.2f}", va="center", fontsize=7.5)
    axis.set_title("confidence in each task")
