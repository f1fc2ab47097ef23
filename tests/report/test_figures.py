"""Figures: names never touch, and nothing that is written leaves the picture."""

import itertools

from dpw.report import style
from dpw.report.figures import label_points, losses
from dpw.runs.gathering import read_runs, sections
from tests.helpers.checks import nonempty


def test_names_of_close_points_do_not_overlap():
    figure, (axis,) = style.new_figure(6, 3.5)
    points = [(1000.0 + x, 50 + 0.01 * x, f"method {x}") for x in range(8)]
    axis.plot([x for x, _, _ in points], [y for _, y, _ in points], "o")
    label_points(axis, points)
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in axis.texts]
    assert not any(a.overlaps(b) for a, b in nonempty(itertools.combinations(boxes, 2)))


def test_titles_of_few_tasks_stay_within_the_picture(runs):
    (section,) = sections(read_runs([runs]))
    figure = losses(section)
    figure.canvas.draw()
    for axis in figure.axes:
        box = axis.title.get_window_extent()
        assert axis.get_title()
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.x1
