"""What a checkpoint says when it is asked to go on with something else."""

from pathlib import Path

import pytest

from dpw.errors import InputError
from dpw.storage.checkpoint import refuse_differences

CLIP = {"image_mean": [0.48, 0.46, 0.41], "size": {"shortest_edge": 224}}


def test_of_a_group_of_settings_only_what_differs_is_named():
    other = {"CLIP settings": {**CLIP, "size": {"shortest_edge": 336}}, "task": "birds"}
    with pytest.raises(InputError) as caught:
        refuse_differences(Path("x.json"), {"CLIP settings": CLIP, "task": "birds"}, other)
    found = str(caught.value)
    assert "(CLIP settings.size.shortest_edge: was 224, now 336)" in found
    assert "image_mean" not in found


def test_long_values_are_cut_and_equal_ones_pass():
    refuse_differences(Path("x.json"), {"clip": CLIP}, {"clip": CLIP})
    with pytest.raises(InputError, match=r"classes: was 'a{59}\.\.\., now None"):
        refuse_differences(Path("x.json"), {"classes": "a" * 5000}, {})
