"""Times of components."""

import math

from dpw import analysis
from tests.helpers.checks import nonempty


def test_times_are_positive_and_named(subject):
    data = analysis.component_times(subject, repeats=1)
    assert len(data.names) == len(data.milliseconds) == 6
    assert all(value > 0 and math.isfinite(value) for value in nonempty(data.milliseconds))
