"""The pictures of a report; each takes a section and gives a figure, and none reads a file."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from dpw.report.style import (
    FAINT,
    GREY,
    GROUND,
    Look,
    heat_map,
    hide_unused,
    label_ticks,
    looks,
    new_figure,
    style,
)
from dpw.runs.gathering import Group, Number, Section

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEWEST_BARS = 4  # tasks that a plot of bars has room for, however few there are
FEW_SECONDS = 10  # below, a time is shown with a decimal
WIDEST_FOR_A_LEGEND = 9.0  # inches that a plot of bars may take only to have its legend in one row
LINEAR_BELOW = 10_000  # parameters below which the axis is linear, so that zero can be shown


def group_looks(section: Section) -> dict[str, Look]:
    """A look for each group: its method's own colour while the method occurs once."""
    labels = [group.label for group in section.groups]
    methods = [group.method for group in section.groups]
    by_group = looks(
        [m if methods.count(m) == 1 else label for m, label in zip(methods, labels, strict=True)]
    )
    return dict(zip(labels, by_group.values(), strict=True))


def accuracy_heat_map(group: Group) -> "Figure":
    """Rows: plain CLIP, then after each task; columns: test sets, learned below the staircase."""
    tasks = group.tasks
    rows = [group.zero_shot, *group.matrix]
    with style():
        figure, (axis,) = new_figure(1.8 + 0.52 * len(tasks), 1.5 + 0.28 * len(rows))
        image = heat_map(axis, rows, 0, 100, decimals=1 if len(tasks) <= 12 else 0)
        label_ticks(axis, tasks, ["plain CLIP", *(f"+ {task}" for task in tasks)])
        axis.set_xlabel("test set")
        axis.set_ylabel("after learning")
        _outline_learned(axis, len(tasks))
        figure.colorbar(image, ax=axis, label="accuracy, %", fraction=0.05, pad=0.02)
    return figure


def _outline_learned(axis: "Axes", tasks: int) -> None:
    """A staircase between what was learned (left below) and what was not (right above)."""
    x, y = [-0.5], [0.5]
    for task in range(tasks):
        x += [task + 0.5, task + 0.5]
        y += [task + 0.5, task + 1.5]
    axis.plot(x, y, color="white", linewidth=3.2)
    axis.plot(x, y, color="#D55E00", linewidth=1.6)


def accuracy_over_time(section: Section) -> "Figure":
    """One small plot for each test set: its accuracy as the tasks go by."""
    tasks, shades = section.tasks, group_looks(section)
    columns = min(4, len(tasks))
    rows = math.ceil(len(tasks) / columns)
    thicker = min(1.1, 3.3 / max(1, len(shades) - 1))
    with style():
        figure, axes = new_figure(
            max(1.9 * columns, 4.2), 1.7 * rows + 0.7, rows, columns, sharex=True, sharey=True
        )
        for index, (task, axis) in enumerate(zip(tasks, axes, strict=False)):
            axis.set_title(task)
            axis.axvline(index + 1, color=FAINT, linewidth=4, zorder=0)
            for depth, group in enumerate(reversed(section.groups)):
                look = shades[group.label]
                line = [group.zero_shot[index], *(row[index] for row in group.matrix)]
                axis.plot(
                    range(len(line)),
                    [math.nan if value is None else value for value in line],  # a gap, not a bridge
                    color=look.colour,
                    linestyle=look.dash,
                    marker=look.marker,
                    label=group.label,
                    # Thinner ones lie on thicker ones, so that equal curves do not hide each other.
                    linewidth=1.2 + thicker * (len(shades) - 1 - depth),
                    markersize=3.2 + thicker * (len(shades) - 1 - depth),
                    zorder=2 + depth,
                )
            axis.set_ylim(-3, 103)
            axis.set_xticks(range(0, len(tasks) + 1, max(1, len(tasks) // 4)))
            axis.grid(axis="y")
        hide_unused(axes, len(tasks))
        figure.supxlabel("tasks learned", fontsize=9)
        figure.supylabel("accuracy, %", fontsize=9)
        _legend_above(figure, axes[0], backwards=True)
    return figure


def _legend_above(figure: "Figure", axis: "Axes", backwards: bool = False) -> None:
    """One legend for the whole figure, over the axes and never on them."""
    handles, labels = axis.get_legend_handles_labels()
    if backwards:
        handles, labels = handles[::-1], labels[::-1]
    rows = max(1, math.ceil(_legend_width(labels) / figure.get_figwidth()))
    figure.legend(
        handles,
        labels,
        loc="outside upper center",
        ncols=max(1, math.ceil(len(labels) / rows)),
        handlelength=1.4,
        columnspacing=1.2,
    )


def _legend_width(labels: Sequence[str]) -> float:
    """The inches that a legend in one row takes, about."""
    return sum(0.42 + 0.075 * len(label) for label in labels)


def losses(section: Section) -> "Figure":
    """Bars by task: what was lost of learned tasks, and of plain CLIP's ability before learning."""
    legend = min(_legend_width([group.label for group in section.groups]), WIDEST_FOR_A_LEGEND)
    with style():
        figure, axes = new_figure(max(4.5, 1.4 + 0.62 * len(section.tasks), legend), 5.0, 2, 1, sharex=True)
        lost = {
            group.label: [
                None if before is None or after is None else before - after
                for before, after in zip(group.zero_shot, group.per_task("transfer"), strict=True)
            ]
            for group in section.groups
        }
        forgotten = {group.label: group.per_task("forgetting") for group in section.groups}
        _bars(axes[0], forgotten, section)
        axes[0].set_title("Forgetting: fall from best to last accuracy")
        _bars(axes[1], lost, section)
        axes[1].set_title("Zero-shot loss: fall below plain CLIP")
        label_ticks(axes[1], section.tasks, None)
        for axis in axes:
            axis.set_ylabel("points")
        _legend_above(figure, axes[0])
    return figure


def _bars(axis: "Axes", values: dict[str, list[Number]], section: Section) -> None:
    """Bars side by side, one for each group."""
    shades = group_looks(section)
    width = 0.8 / len(values)
    for index, (label, row) in enumerate(values.items()):
        left = [x - 0.4 + width * (index + 0.5) for x, value in enumerate(row) if value is not None]
        axis.bar(
            left, [v for v in row if v is not None], width * 0.92, color=shades[label].colour, label=label
        )
    spare = max(0.0, (FEWEST_BARS - len(section.tasks)) / 2)  # a single task's bars stay bars
    axis.set_xlim(-0.6 - spare, len(section.tasks) - 0.4 + spare)
    axis.grid(axis="y")
    if all(value is None for row in values.values() for value in row):
        axis.text(0.5, 0.5, "these methods have none", transform=axis.transAxes, ha="center", va="center")
        axis.set_yticks([])
    else:
        axis.axhline(0, linewidth=0.8, color="#7F7F7F")
        low, high = axis.get_ylim()
        axis.set_ylim(low if low < -0.06 else 0, max(high, 1))  # no tiny numbers where nothing was lost


def confusion_heat_map(group: Group) -> "Figure | None":
    """Rows: the task an image is from; columns: the task it was taken for."""
    if group.confusion is None:
        return None
    tasks = group.tasks
    with style():
        figure, (axis,) = new_figure(2.0 + 0.5 * len(tasks), 1.5 + 0.28 * len(tasks))
        image = heat_map(axis, group.confusion, 0, 100)
        label_ticks(axis, tasks, tasks)
        axis.set_xlabel("identified as")
        axis.set_ylabel("images of")
        figure.colorbar(image, ax=axis, label="% of images", fraction=0.05, pad=0.02)
    return figure


def parameters_against_accuracy(section: Section) -> "Figure":
    """Each method by what it learns and what it reaches; published figures are hollow."""
    shades = group_looks(section)
    with style():
        figure, (axis,) = new_figure(6.2, 3.6)
        points: list[tuple[float, float, str]] = []
        for group in section.groups:
            mean, look = _height(group), shades[group.label]
            if mean is None:
                continue
            x = float(group.parameters)
            axis.plot(x, mean, look.marker, color=look.colour, markersize=8)
            points.append((x, mean, group.label))
        for printed in section.published:
            if printed.parameters is not None and printed.preset == "default":
                x = printed.parameters * 1e6
                axis.plot(x, printed.mean, "o", markerfacecolor="none", color=GREY, markersize=7)
                points.append((x, printed.mean, printed.method))
        axis.set_xscale("symlog", linthresh=LINEAR_BELOW, linscale=0.6)
        most = max((x for x, _, _ in points), default=LINEAR_BELOW)
        axis.set_xticks([0, *(10**power for power in range(4, 1 + math.ceil(math.log10(max(most, 10**4)))))])
        axis.set_xlim(-0.25 * LINEAR_BELOW, 2 * max(most, LINEAR_BELOW))
        axis.set_xlabel("learned parameters, all tasks together")
        axis.set_ylabel("mean of Transfer, Avg and Last, %" if _all_complete(section) else "accuracy, %")
        axis.grid()
        axis.margins(y=0.18)
        label_points(axis, points)
    return figure


def _height(group: Group) -> float | None:
    """Mean accuracy of a group, or Last where a method has no zero-shot ability."""
    found = group.metric("mean") or group.metric("last")
    return None if found is None else found.mean


def _all_complete(section: Section) -> bool:
    """Whether every group has all three metrics."""
    return all(group.metric("mean") is not None for group in section.groups)


def label_points(
    axis: "Axes",
    points: list[tuple[float, float, str]],
    lines: Sequence[Sequence[tuple[float, float]]] = (),
) -> None:
    """Write a name beside each point, at the nearest offset where it touches no name, point or line."""
    from matplotlib.transforms import Bbox

    figure = axis.figure
    figure.draw_without_rendering()  # type: ignore[union-attr]
    reach = 5 * figure.dpi / 72
    centres = [axis.transData.transform((x, y)) for x, y, _ in points]
    taken = [Bbox.from_bounds(x - reach, y - reach, 2 * reach, 2 * reach) for x, y in centres]
    for line in lines:
        corners = axis.transData.transform(line)
        for start, end in itertools.pairwise(corners):
            steps = max(1, int(math.dist(start, end) / reach))
            along = [start + (end - start) * step / steps for step in range(steps + 1)]
            taken += [Bbox.from_bounds(x - 1, y - 1, 2, 2) for x, y in along]
    inside = axis.get_window_extent()
    for x, y, name in points:
        text = axis.annotate(name, (x, y), xytext=(0, 0), textcoords="offset points", fontsize=8)
        text.set_bbox(
            {"boxstyle": "square,pad=0.1", "facecolor": GROUND, "edgecolor": "none"}
        )  # over the grid
        for across, up, side in _offsets():
            text.set_position((across, up))
            text.set_horizontalalignment(side)
            box = text.get_window_extent()
            fits = inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1
            if fits and not any(box.overlaps(other) for other in taken):
                break
        taken.append(text.get_window_extent())


def _offsets() -> Iterator[tuple[float, float, Literal["left", "right", "center"]]]:
    """Offsets in points around a point, the nearest first: beside it, above and below, then further away."""
    for step in range(12):
        for up in (-3 + 11 * step, -3 - 11 * step):
            yield 8, up, "left"
            yield -8, up, "right"
        yield 0, 7 + 11 * step, "center"
        yield 0, -14 - 11 * step, "center"


def times(section: Section) -> "Figure":
    """Seconds of learning and measuring for each method."""
    labels = [group.label for group in section.groups]
    with style():
        figure, (axis,) = new_figure(6.2, 0.9 + 0.34 * len(labels))
        start = [0.0] * len(labels)
        for name, colour in (("learn", "#0072B2"), ("measure", "#E69F00")):
            found = [group.seconds(name) for group in section.groups]
            width = [0.0 if one is None else one.mean for one in found]
            shown = {"learn": "learning", "measure": "measuring"}[name]
            axis.barh(range(len(labels)), width, left=start, color=colour, height=0.65, label=shown)
            start = [a + b for a, b in zip(start, width, strict=True)]
        for row, total in enumerate(start):
            spent = f"{total:.1f} s" if total < FEW_SECONDS else f"{total:.0f} s"
            axis.annotate(spent, (total, row), (4, 0), textcoords="offset points", va="center", fontsize=8)
        axis.set_yticks(range(len(labels)), labels)
        axis.invert_yaxis()
        axis.set_xlim(0, max(start) * 1.15 or 1)
        axis.set_xlabel("seconds")
        _legend_above(figure, axis)
    return figure
