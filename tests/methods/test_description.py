"""Every setting of every method has a meaning, and says what it may be."""

import pytest

from dpw.methods import METHODS
from dpw.methods.config import TrainingConfig
from dpw.methods.description import describe, meanings, settings_of


@pytest.mark.parametrize("name", METHODS)
def test_every_setting_has_a_meaning(name):
    settings = describe(name).settings
    assert len(settings) > 15
    assert [one.name for one in settings if not one.meaning.endswith(".")] == []
    assert all(one.values for one in settings)


def test_values_are_in_the_words_of_a_settings_file():
    found = {one.name: one for one in settings_of(TrainingConfig)}
    assert found["optimizer"].values == "sgd, adam, adamw"
    assert found["epochs"].values == "whole number ≥ 1, or null"
    assert found["momentum"].values == "number ≥ 0, < 1"
    assert found["task_epochs"].values == "a whole number for each task"
    assert found["drop_last"].default is True


def test_a_class_without_source_has_no_meanings():
    made = type("Made", (TrainingConfig,), {"__module__": "nowhere"})
    assert meanings(made) == meanings(TrainingConfig)
