"""Calibration error and AUROC against values that can be worked out by hand."""

import random

import pytest

from dpw.engine.calibration import auroc, calibration, share_below, threshold_at


def test_the_error_is_the_weighted_distance_of_probability_and_accuracy():
    found = calibration([0.9, 0.9, 0.9, 0.9, 0.5, 0.5], [True, True, True, False, False, True], bins=10)
    assert found.error == pytest.approx((4 * abs(0.9 - 0.75) + 2 * 0) / 6)
    assert [one.images for one in found.bins] == [0, 0, 0, 0, 2, 0, 0, 0, 4, 0]
    assert found.bins[8].accuracy == 0.75
    assert found.bins[0].accuracy is None


def test_ends_belong_to_a_bin():
    found = calibration([0.0, 1.0], [False, True])
    assert found.error == 0
    assert len(found.bins) == 15
    assert (found.bins[0].images, found.bins[-1].images) == (1, 1)


def test_auroc_counts_pairs_and_half_of_ties():
    assert auroc([3, 4], [1, 2]) == 1
    assert auroc([1, 2], [3, 4]) == 0
    assert auroc([1, 1], [1]) == 0.5
    draw = random.Random(0)
    known, strange = ([draw.randrange(8) for _ in range(30)] for _ in range(2))
    pairs = [(a > b) + 0.5 * (a == b) for a in known for b in strange]
    assert auroc(known, strange) == pytest.approx(sum(pairs) / len(pairs))


def test_a_threshold_rejects_at_most_its_level():
    known = [number / 100 for number in range(100)]
    assert share_below(known, threshold_at(known, 0.05)) == pytest.approx(0.05)
    assert share_below([0.5] * 9, threshold_at([0.5] * 9, 0.5)) == 0
