"""How many steps a training has."""

import dataclasses

import pytest

from dpw.data.pixels import PixelCache
from dpw.engine.callbacks import TrainingCallback
from dpw.engine.devices import make_accelerator
from dpw.engine.training import Trainer
from dpw.methods.config import TrainingConfig
from dpw.methods.parts.steps import adam_by_steps, steps_of
from tests.helpers.toy_methods import toy_method, toy_task


def test_epochs_drop_last_single_tasks_and_iterations_decide():
    settings = {"batch_size": 10, "drop_last": False, "epochs": 2, "task_epochs": {"dtd": 3}}
    assert steps_of(TrainingConfig(**settings), "mnist", 25) == 6
    assert steps_of(TrainingConfig(**settings | {"drop_last": True}), "dtd", 25) == 6
    assert steps_of(TrainingConfig(**settings, iterations=7), "dtd", 25) == 7
    assert steps_of(TrainingConfig(**settings, minimum_steps=30), "mnist", 25) == 30
    assert steps_of(TrainingConfig(**settings, minimum_steps=30), "mnist", 2500) == 500
    assert steps_of(TrainingConfig(**settings, minimum_steps=5), "mnist", 25) == 6


def test_500_steps_are_planned_for_a_task_of_any_size():
    assert {steps_of(adam_by_steps(0.1), "sun397", images) for images in (160, 4093, 87003)} == {500}


class Counted(TrainingCallback):
    """Remembers the last step."""

    steps = 0

    def on_step(self, task, epoch, epochs, step, loss):
        self.steps = step


CHANGES = [{}, {"drop_last": False}, {"minimum_steps": 5}, {"iterations": 3}, {"task_epochs": {"dtd": 2}}]


@pytest.mark.parametrize("changes", CHANGES)
def test_a_training_takes_the_planned_steps_and_tells_its_method(changes):
    """Also where it does not follow the method's own settings, as for a person's folder."""
    method, task = toy_method("coleclip"), toy_task("dtd", train=10)
    training = TrainingConfig(batch_size=8, epochs=1, select="last", **changes)
    counted = Counted()
    trainer = Trainer(PixelCache(method.backbone.preprocessing, folder=None), make_accelerator())
    dataclasses.replace(trainer, callback=counted).fit(method, task, training=training)
    assert counted.steps == steps_of(training, "dtd", 10) == method.planned_steps
