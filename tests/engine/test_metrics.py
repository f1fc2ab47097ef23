"""What an accuracy matrix says, by hand."""

import pytest

from dpw.engine.metrics import summarize

MATRIX = [[90.0, 10.0, 20.0], [80.0, 70.0, 30.0], [60.0, 50.0, 40.0]]


def test_the_average_of_mtil_is_the_mean_of_the_matrix():
    found = summarize(MATRIX, [1.0, 2.0, 3.0])
    assert found["avg"] == found["matrix_avg"] == pytest.approx(sum(map(sum, MATRIX)) / 9)


def test_the_average_of_steps_is_over_all_classes_seen_after_each():
    found = summarize(MATRIX, [1.0, 2.0, 3.0], images=[100, 100, 100])
    assert found["avg"] == pytest.approx((90 + 75 + 50) / 3)
    assert found["matrix_avg"] == pytest.approx(sum(map(sum, MATRIX)) / 9)
    assert found["last"] == pytest.approx(50)
    uneven = summarize(MATRIX, [1.0, 2.0, 3.0], images=[300, 100, 100])
    assert uneven["avg"] == pytest.approx((90 + (3 * 80 + 70) / 4 + (3 * 60 + 50 + 40) / 5) / 3)


def test_the_average_of_steps_needs_no_zero_shot_ability():
    blind = [[90.0, None], [80.0, 70.0]]
    found = summarize(blind, [None, None], images=[10, 10])
    assert (found["avg"], found["matrix_avg"]) == (82.5, None)
