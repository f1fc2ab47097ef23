"""Figures: names never touch."""

import itertools

from dpw.report import style
from dpw.report.figures import label_points
from tests.helpers.checks import nonempty


def test_names_of_close_points_do_not_overlap():
    figure, (axis,) = style.new_figure(6, 3.5)
    points = [(1000.0 + x, 50 + 0.01 * x, f"method {x}") for x in range(8)]
    axis.plot([x for x, _, _ in points], [y for _, y, _ in points], "o")
    label_points(axis, points)
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in axis.texts]
    assert not any(a.overlaps(b) for a, b in nonempty(itertools.combinations(boxes, 2)))
