"""How many steps a training has."""

from dpw.methods.config import TrainingConfig
from dpw.methods.parts.steps import adam_by_steps, steps_of


def test_the_planned_steps_are_those_of_training():
    settings = {"batch_size": 10, "drop_last": False, "epochs": 2, "task_epochs": {"dtd": 3}}
    assert steps_of(TrainingConfig(**settings), "mnist", 25) == 6
    assert steps_of(TrainingConfig(**settings | {"drop_last": True}), "dtd", 25) == 6
    assert steps_of(TrainingConfig(**settings, iterations=7), "dtd", 25) == 7
    assert steps_of(TrainingConfig(**settings, minimum_steps=30), "mnist", 25) == 30
    assert steps_of(TrainingConfig(**settings, minimum_steps=5), "mnist", 25) == 6


def test_500_steps_are_planned_for_a_task_of_any_size():
    assert {steps_of(adam_by_steps(0.1), "sun397", images) for images in (160, 4093, 87003)} == {500}
