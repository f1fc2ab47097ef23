"""A task knows its prompts and refuses names, templates and labels that no method could use."""

import json

import numpy as np
import pytest

from dpw.data.task import Split, Task
from dpw.errors import InputError


def split(labels):
    return Split.from_arrays(np.zeros((len(labels), 2, 2, 3), np.uint8), labels, "toy/train")


def task(**changes):
    fields = {
        "name": "toy",
        "classes": ("water_lilly", "car side"),
        "templates": ("a photo of a {}.", "a sketch of a {}."),
        "train": split([0, 1]),
        "test": split([0]),
    }
    return Task(**(fields | changes))


def test_prompts_use_the_first_template_and_spaces_for_underscores():
    assert task().prompts() == ["a photo of a water lilly.", "a photo of a car side."]
    assert task().prompts("the_{}!")[0] == "the water lilly!"


def test_a_description_is_json_and_decodes_nothing():
    described = task().describe()
    assert json.loads(json.dumps(described)) == described
    assert (described["train"], described["test"], described["classes"]) == (2, 1, 2)
    assert "val" not in described


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"classes": ("a", "a")}, "2 classes called 'a'; rename or merge"),
        ({"classes": ("red_fox", "red fox")}, "'red_fox' and 'red fox', which read alike; rename or merge"),
        ({"classes": ()}, "has no classes"),
        ({"templates": ()}, "no prompt template"),
        ({"templates": ("a photo.",)}, r"needs exactly one \{\}"),
        ({"train": split([0, 7])}, r"label 7 of toy/train\[1\] .* is outside 0\.\.1"),
        ({"train": split([-1])}, "label -1"),
        ({"protocol": "other"}, "protocol 'other' is unknown; choose one of coop, zscl"),
        ({"name": "../x"}, "without slashes"),
    ],
)
def test_unusable_tasks_are_refused(changes, words):
    with pytest.raises(InputError, match=words):
        task(**changes)
