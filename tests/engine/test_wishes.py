"""Numbers that no training can have are refused before anything is loaded."""

import pytest

from dpw.engine.wishes import Wishes, refuse_impossible
from dpw.errors import InputError


@pytest.mark.parametrize(
    ("wishes", "seed", "seconds", "why"),
    [
        (Wishes(steps=0), 0, 30.0, "steps must be above 0"),
        (Wishes(time_limit=-1), 0, 30.0, "time_limit must be above 0"),
        (Wishes(steps=1, epochs=1), 0, 30.0, "steps or epochs"),
        (Wishes(), -1, 30.0, "seed is -1"),
        (Wishes(), 0, float("nan"), "checkpoint_seconds"),
    ],
)
def test_refused(wishes, seed, seconds, why):
    with pytest.raises(InputError, match=why):
        refuse_impossible(wishes, seed, seconds)


def test_what_was_given():
    refuse_impossible(Wishes(steps=3), 0, 0.0)
    assert Wishes(steps=3).given() == {"steps": 3}
