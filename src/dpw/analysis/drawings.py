"""How the analyses are drawn: one function for each kind of data, none of which computes anything."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpw.analysis.cls_scores import ClsScores
from dpw.analysis.cutoffs import CutoffComparison
from dpw.analysis.prefix_lengths import LengthPoint
from dpw.analysis.queries import QuerySimilarity, TokenPlane
from dpw.analysis.score_maps import ScoreMaps
from dpw.analysis.timing import TASK_TIME, ComponentTimes
from dpw.analysis.token_weights import OutputCosines, WeightDistribution
from dpw.report.figures import label_points
from dpw.report.style import (
    BLUE,
    GREEN,
    GREY,
    HEAT,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    hide_unused,
    label_ticks,
    looks,
    new_figure,
    style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor


def draw_query_similarity(data: QuerySimilarity) -> "Figure":
    """Left: which patches count as relevant; right: cosines by block before and after the projection."""
    with style():
        figure, axes = new_figure(7.2, 2.9, 1, 3, width_ratios=(0.8, 1, 1))
        side = math.isqrt(len(data.relevant))
        show_image(axes[0], data.image)
        size = data.image.shape[1] / side
        for patch in range(side * side):
            for chosen, colour in ((data.relevant, PURPLE), (data.irrelevant, GREEN)):
                if bool(chosen[patch]):
                    row, column = divmod(patch, side)
                    _square(axes[0], column * size, row * size, size, colour)
        axes[0].set_title(f"an image of {data.task}")
        pairs = (
            ("before the query projection", data.within_before, data.across_before),
            ("after the query projection", data.within_after, data.across_after),
        )
        blocks = range(1, len(data.within_before) + 1)
        for axis, (title, within, across) in zip(axes[1:], pairs, strict=True):
            axis.plot(blocks, within, "o-", color=PURPLE, label="relevant with relevant")
            axis.plot(blocks, across, "s--", color=GREEN, label="relevant with irrelevant")
            axis.set_title(title)
            axis.set_xlabel("block")
            axis.set_xticks(_block_ticks(len(within)))
            axis.grid(axis="y")
        both = [*data.within_before, *data.across_before, *data.within_after, *data.across_after]
        for axis in axes[1:]:
            axis.set_ylim(min(0.0, min(both) - 0.05), max(both) + 0.08)
        axes[1].set_ylabel("mean cosine")
        handles, labels = axes[1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def _square(axis: "Axes", x: float, y: float, size: float, colour: str) -> None:
    """Frame one patch."""
    from matplotlib.patches import Rectangle

    gap = size * 0.08
    inner = size - 2 * gap
    axis.add_patch(
        Rectangle((x + gap - 0.5, y + gap - 0.5), inner, inner, fill=False, edgecolor=colour, linewidth=1.6)
    )


def _block_ticks(blocks: int) -> list[int]:
    """Block numbers from one, not too many."""
    return list(range(1, blocks + 1, 1 if blocks <= 6 else 2))


def draw_token_plane(data: TokenPlane) -> "Figure":
    """Two clouds side by side: the same tokens before and after the projection."""
    with style():
        figure, axes = new_figure(6.4, 3.2, 1, 2)
        before = (data.before, data.separation_before, "before the query projection")
        after = (data.after, data.separation_after, "after the query projection")
        for axis, (points, apart, title) in zip(axes, (before, after), strict=True):
            for label, (name, colour, marker) in enumerate(
                zip(data.tasks, (BLUE, VERMILION), "o^", strict=True)
            ):
                chosen = points[data.labels == label]
                axis.scatter(
                    chosen[:, 0].tolist(),
                    chosen[:, 1].tolist(),
                    s=9,
                    marker=marker,
                    color=colour,
                    alpha=0.55,
                    linewidths=0,
                    label=name,
                )
            axis.set_title(title)
            axis.set_xlabel(f"variance between tasks: {100 * apart:.1f} %")
            axis.set_xticks([])
            axis.set_yticks([])
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, markerscale=2)
        figure.suptitle(f"tokens of block {data.block + 1}, {data.how.upper()}", fontsize=9)
    return figure


def show_image(axis: "Axes", image: "Tensor", grey: bool = False) -> None:
    """Draw pixels `(3, H, W)` without ticks and frame."""
    pixels = image.permute(1, 2, 0).numpy()
    if grey:
        axis.imshow(pixels.mean(axis=2), cmap="gray", vmin=0, vmax=255)
    else:
        axis.imshow(pixels)
    bare(axis)


def bare(axis: "Axes") -> None:
    """Take ticks and frame away."""
    axis.set_xticks([])
    axis.set_yticks([])
    axis.spines[:].set_visible(False)


def overlay(axis: "Axes", image: "Tensor", values: "Tensor", low: float, high: float) -> Any:
    """A map of patch values `(side, side)` over the grey image, every patch one flat square."""
    show_image(axis, image, grey=True)
    height, width = image.shape[1:]
    extent = (-0.5, width - 0.5, height - 0.5, -0.5)
    options: dict[str, Any] = {"cmap": HEAT, "vmin": low, "vmax": max(high, low + 1e-9), "alpha": 0.72}
    return axis.imshow(values.numpy(), extent=extent, interpolation="nearest", **options)


def draw_score_maps(data: ScoreMaps) -> "Figure":
    """A column for each image: the image, attention's map, RePA's map."""
    columns = len(data.tasks)
    with style():
        figure, axes = new_figure(1.0 + 1.5 * columns, 4.6, 3, columns)
        for column, task in enumerate(data.tasks):
            image = data.images[column]
            show_image(axes[column], image)
            axes[column].set_title(task)
            overlay(axes[columns + column], image, data.attention[column], 0, 1)
            drawn = overlay(axes[2 * columns + column], image, data.repa[column], 0, 1)
        names = ("image", f"attention\n({data.attention_from})", "RePA")
        for row, name in enumerate(names):
            axes[row * columns].set_ylabel(name)
        bar = figure.colorbar(drawn, ax=axes, shrink=0.6, fraction=0.03, pad=0.02, ticks=[0, 1])
        bar.ax.set_yticklabels(["lowest", "highest"])
    return figure


def draw_weight_distribution(data: WeightDistribution) -> "Figure":
    """Bars: total weight by block; line: the share of the prefixes; learned and unseen tasks side by side."""
    columns = min(4, len(data.tasks))
    rows = math.ceil(len(data.tasks) / columns)
    highest = max(max(row) for row in data.total) * 1.1 or 1.0
    with style():
        figure, axes = new_figure(max(1.85 * columns, 4.4), 1.75 * rows + 0.7, rows, columns)
        for index, task in enumerate(data.tasks):
            axis = axes[index]
            blocks = range(1, len(data.total[index]) + 1)
            colour = GREEN if data.learned[index] else SKY
            bars = axis.bar(blocks, data.total[index], color=colour, width=0.7)
            axis.set_ylim(0, highest)
            share = axis.twinx()
            (line,) = share.plot(blocks, data.prefix_share[index], "o-", color=PURPLE, markersize=3.5)
            share.set_ylim(0, 1.12)
            share.spines["right"].set_visible(True)
            share.set_yticks([0, 0.5, 1] if index % columns == columns - 1 else [])
            axis.set_yticks(axis.get_yticks() if index % columns == 0 else [])
            axis.set_ylim(0, highest)
            axis.set_xticks(_block_ticks(len(blocks)))
            axis.set_title(task + ("" if data.learned[index] else " (unseen)"))
            if index in (0, len(data.learned) - 1):
                bars.set_label("total weight, learned" if data.learned[index] else "total weight, unseen")
        hide_unused(axes, len(data.tasks))
        figure.supxlabel("block", fontsize=9)
        figure.supylabel("mean weight of a token", fontsize=9)
        _weight_legend(figure, line)
    return figure


def _weight_legend(figure: "Figure", line: Any) -> None:
    """Name the bars of learned and unseen tasks and the line."""
    from matplotlib.patches import Patch

    handles = [Patch(color=GREEN), Patch(color=SKY), line]
    names = ["total weight, learned task", "total weight, unseen task", "share of the prefixes (right)"]
    figure.legend(handles, names, loc="outside upper center", ncols=3)


def draw_output_cosines(data: OutputCosines) -> "Figure":
    """Bars by task: the mean over blocks, weighted by RWM and uniform."""
    alike = "learned with a uniform weight" if data.learned_uniformly else "all tokens alike"
    with style():
        figure, (axis,) = new_figure(max(4.6, 1.6 + 0.62 * len(data.tasks)), 3.1)
        for shift, (rows, colour, name) in enumerate(
            ((data.weighted, BLUE, "tokens weighted by RWM"), (data.uniform, ORANGE, alike))
        ):
            heights = [sum(abs(value) for value in row) / len(row) for row in rows]
            left = [index - 0.2 + 0.4 * shift for index in range(len(rows))]
            axis.bar(left, heights, 0.38, color=colour, label=name)
        label_ticks(axis, data.tasks, None)
        axis.set_ylabel("|cosine| of prefix and adapter\noutput, mean over blocks")
        axis.grid(axis="y")
        figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def draw_cutoffs(data: CutoffComparison) -> "Figure":
    """Solid: fixed cut-offs; dashed: the dynamic one."""
    with style():
        figure, axes = new_figure(6.6, 2.8, 1, 2)
        pairs = (
            (axes[0], "Transfer", data.transfer, data.dynamic_transfer, BLUE),
            (axes[1], "Last", data.last, data.dynamic_last, VERMILION),
        )
        for axis, title, fixed, dynamic, colour in pairs:
            known = [(x, y) for x, y in zip(data.cutoffs, fixed, strict=True) if y is not None]
            axis.plot([x for x, _ in known], [y for _, y in known], "o-", color=colour, label="fixed")
            if dynamic is not None:
                axis.axhline(dynamic, linestyle="--", color=GREY, label="dynamic")
            axis.set_title(title)
            axis.set_xlabel("fixed cut-off")
            axis.grid(axis="y")
            axis.margins(y=0.3)
            axis.legend(loc="best")
        axes[0].set_ylabel("accuracy, %")
    return figure


def draw_cls_scores(data: ClsScores, blocks: Sequence[int] | None = None) -> "Figure":
    """Histograms of the standardised scores, with the standard normal density over them.

    The first block is left out by default: before it [CLS] has seen no patch and is the same for every image.
    """
    later = range(min(1, len(data.standardised) - 1), len(data.standardised))
    chosen = list(blocks) if blocks is not None else [later[index] for index in _some(len(later), 6)]
    columns = min(3, len(chosen))
    rows = math.ceil(len(chosen) / columns)
    with style():
        figure, axes = new_figure(
            2.2 * columns + 0.4, 1.9 * rows + 0.6, rows, columns, sharex=True, sharey=True
        )
        grid = [-4 + 8 * step / 160 for step in range(161)]
        normal = [math.exp(-x * x / 2) / math.sqrt(2 * math.pi) for x in grid]
        for axis, block in zip(axes, chosen, strict=False):
            scores = data.standardised[block].clamp(-4, 4).tolist()
            axis.hist(scores, bins=32, range=(-4, 4), density=True, color=SKY, label="[CLS] scores")
            axis.plot(grid, normal, color=VERMILION, label="Gaussian")
            axis.set_title(f"block {block + 1}, distance {data.distance[block]:.2f}")
        hide_unused(axes, len(chosen))
        figure.supxlabel("(score − mean) / deviation", fontsize=9)
        figure.supylabel("density", fontsize=9)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def _some(count: int, most: int) -> list[int]:
    """At most `most` of `count` indices, first and last among them."""
    if count <= most:
        return list(range(count))
    return sorted({round(index * (count - 1) / (most - 1)) for index in range(most)})


def draw_prefix_lengths(data: Mapping[str, Sequence[LengthPoint]]) -> "Figure":
    """A line for each method, every point named by its number of prefixes."""
    shades = looks(list(data))
    with style():
        figure, (axis,) = new_figure(5.6, 3.3)
        from matplotlib.ticker import EngFormatter

        for method, points in data.items():
            look = shades[method]
            x, y = [point.parameters for point in points], [point.mean for point in points]
            axis.plot(x, y, look.dash, marker=look.marker, color=look.colour, label=method, markersize=6)
        axis.xaxis.set_major_formatter(EngFormatter())
        axis.set_xlabel("learned parameters, all tasks together")
        axis.set_ylabel("mean of Transfer, Avg and Last, %")
        axis.margins(x=0.12, y=0.22)
        axis.grid()
        figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=3)
        all_points = [point for points in data.values() for point in points]
        label_points(
            axis,
            [(point.parameters, point.mean, f"L={point.length}") for point in all_points],
            [[(point.parameters, point.mean) for point in points] for points in data.values()],
        )
    return figure


def draw_component_times(data: ComponentTimes) -> "Figure":
    """A bar for each stage; what the method adds stands out from plain CLIP."""
    with style():
        figure, (axis,) = new_figure(6.4, 1.0 + 0.36 * len(data.names))
        colours = {"plain CLIP": GREY, "+ attention over prefixes": ORANGE, TASK_TIME: GREEN}
        shades = [colours.get(name, BLUE) for name in data.names]
        axis.barh(range(len(data.names)), data.milliseconds, color=shades, height=0.65)
        for index, value in enumerate(data.milliseconds):
            axis.text(value, index, f" {value:.2f} ms", va="center", fontsize=8)
        axis.set_yticks(range(len(data.names)), data.names)
        axis.invert_yaxis()
        axis.set_xlim(0, max(data.milliseconds) * 1.18)
        axis.set_xlabel(f"milliseconds for one image, in batches of {data.images}")
    return figure
