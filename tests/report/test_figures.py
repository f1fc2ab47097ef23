"""Figures: names never touch, and nothing that is written leaves the picture."""

import itertools

from dpw.report import style
from dpw.report.figures import _bars, label_points, losses
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


def test_the_legend_of_many_methods_is_one_row_where_it_can_be(runs):
    (section,) = sections(read_runs([runs]))
    figure = losses(section)
    figure.canvas.draw()
    (legend,) = figure.legends
    heights = {round(text.get_window_extent().y0) for text in legend.get_texts()}
    assert len(heights) == 1
    box = legend.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.x1


def test_where_nothing_was_measured_no_line_crosses_the_words(runs):
    (section,) = sections(read_runs([runs]))
    figure, (axis,) = style.new_figure(4, 3)
    _bars(axis, {group.label: [None] * len(section.tasks) for group in section.groups}, section)
    assert [text.get_text() for text in axis.texts] == ["these methods have none"]
    assert not axis.lines
    figure.canvas.draw()


def test_names_stand_before_the_grid_on_the_ground_of_the_page(tmp_path):
    figure, (axis,) = style.new_figure(6, 3.5)
    axis.plot([0, 1], [0, 1], "o")
    label_points(axis, [(0.0, 0.0, "one"), (1.0, 1.0, "two")])
    picture = style.save_picture(figure, tmp_path, "named", "names", "names")
    assert style.GROUND not in style.inline_svg(picture)
    assert style.inline_svg(picture).count("var(--paper)") == 2
