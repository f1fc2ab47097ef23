"""What a finished run says about itself."""

import pytest

from dpw.data.reference import ReferenceData
from dpw.methods import create
from dpw.runs.results import extra_data
from tests.helpers.tiny_clip import tiny_backbone
from tests.helpers.toy_methods import toy_task


@pytest.mark.parametrize(
    ("name", "settings", "brought", "extra"),
    [
        ("dpw", {}, True, False),
        ("lwf", {}, True, False),
        ("zscl", {"reference_images": "task", "reference_sentences": "class-prompts"}, True, False),
        ("zscl", {"reference_images": "somewhere"}, False, True),
        ("zscl", {}, True, True),
        ("moe-adapters", {}, False, False),
        ("moe-adapters", {}, True, True),
    ],
)
def test_says_whether_it_looked_beyond_its_tasks(name, settings, brought, extra):
    """By a setting that names such data, or because the benchmark brought some and the method uses it."""
    method = create(name, tiny_backbone(), settings=settings)
    method.reference = ReferenceData(toy_task("aircraft").train if brought else None)
    assert extra_data(method) is extra
