"""ZSCL: teacher, consolidation and the running average of the weights."""

import pytest
import torch

from dpw.data.reference import ReferenceData
from dpw.errors import InputError
from dpw.methods import configure
from tests.helpers.checks import nonempty
from tests.helpers.toy_methods import Trainer, copied, learn, toy_method, toy_task


def test_the_average_is_the_mean_of_the_start_and_all_snapshots():
    method = learn(toy_method("zscl", average_every=2), toy_task("aircraft"))
    trainer = Trainer(method, toy_task("dtd"))
    points = [copied(method.weights())]
    for step in range(5):
        trainer.run(1)
        if step % 2 == 0:
            points.append(copied(method.weights()))
    trainer.end()
    assert len(points) == 4
    for name, tensor in nonempty(method.weights().items()):
        torch.testing.assert_close(tensor, torch.stack([point[name] for point in points]).mean(dim=0))


def test_a_training_of_whole_rounds_counts_its_last_point_too():
    method = toy_method("zscl", average_every=2)
    trainer = Trainer(method, toy_task("aircraft")).run(4)
    assert method.averaging.points == 3
    last = copied(method.weights())
    average = copied(method.averaging.average)
    trainer.end()
    for name, tensor in nonempty(method.weights().items()):
        torch.testing.assert_close(tensor, (3 * average[name] + last[name]) / 4)


def test_without_averaging_the_last_weights_stay():
    method = toy_method("zscl", average_every=0)
    trainer = Trainer(method, toy_task("aircraft")).run(2)
    last = copied(method.weights())
    trainer.end()
    assert all(torch.equal(tensor, last[name]) for name, tensor in nonempty(method.weights().items()))


def test_the_teacher_stays_plain_clip_and_the_anchor_moves_on():
    method = learn(toy_method("zscl"), toy_task("aircraft"))
    ended = copied(method.weights())
    Trainer(method, toy_task("dtd"))
    assert method.distillation.teacher is method.backbone
    previous = nonempty(method.previous_weights().items())
    assert all(torch.equal(tensor, ended[name]) for name, tensor in previous)


def test_consolidation_is_the_squared_distance_from_the_start():
    method = toy_method("zscl", image_weight=0.0, text_weight=0.0)
    trainer = Trainer(method, toy_task("aircraft"))
    assert method.restraint().item() == 0
    trainer.run(2)
    start = dict(method.backbone.clip.named_parameters())
    expected = sum(float(((t.detach() - start[n]) ** 2).sum()) for n, t in method.weights().items())
    assert method.restraint().item() == pytest.approx(expected, rel=1e-4)


def test_zscl_star_is_zscl_without_consolidation():
    default, star = configure("zscl"), configure("zscl", "star")
    assert (default.consolidation, star.consolidation) == (1, 0)
    assert star.model_copy(update={"consolidation": 1.0}) == default


@pytest.mark.parametrize("missing", ["reference_images", "reference_sentences"])
def test_says_which_reference_data_it_needs(missing):
    method = toy_method("zscl")
    given = method.reference
    method.reference = ReferenceData(
        images=None if missing == "reference_images" else given.images,
        sentences=None if missing == "reference_sentences" else given.sentences,
    )
    with pytest.raises(InputError, match=f"'zscl' needs .*{missing}="):
        learn(method, toy_task("aircraft"))
    assert method.task_names == []


def test_the_task_itself_can_be_the_reference():
    settings = {"reference_images": "task", "reference_sentences": "class-prompts"}
    method = toy_method("zscl", **settings)
    method.reference = ReferenceData()
    learn(method, toy_task("aircraft"))
    assert method.task_names == ["aircraft"]


def test_the_class_incremental_preset_has_no_distance_term():
    config = configure("zscl", "cil")
    assert (config.consolidation, config.average_every) == (0.0, 10)
