"""LADA: memories, the adapter's size, replay of earlier classes, and the gate at test time."""

import pytest
import torch

from dpw.clip.backbone import TowerShape
from dpw.methods import Candidates, ClassGroup
from dpw.methods.lada import NEVER, TextAdapter, memory_logits
from tests.helpers.toy_methods import Trainer, answers, copied, learn, some_pixels, toy_method, toy_task

UNSEEN = ClassGroup("unseen", ("oak", "fir"))


@pytest.fixture(scope="module")
def lada():
    method = toy_method("lada")
    for name in ("aircraft", "dtd"):
        learn(method, toy_task(name))
    return method


def test_the_adapter_has_the_published_number_of_parameters():
    adapter = TextAdapter(TowerShape(12, 512, 8, 77), 16, 0.1, torch.Generator())
    assert sum(tensor.numel() for tensor in adapter.parameters()) == 215_244


def test_memories_of_a_class_add_up():
    features = torch.eye(3)[:1]
    vectors = torch.tensor([[1.0, 0, 0], [0, 1.0, 0], [0.5, 0, 0]])
    found = memory_logits(features, vectors, torch.tensor([0, 1, 0]), 2, 1.0)
    expected = torch.tensor([[1 + torch.e**-0.5, torch.e**-1]])
    torch.testing.assert_close(found, expected)


def test_a_new_task_starts_as_plain_clip_in_its_texts():
    method = toy_method("lada")
    Trainer(method, toy_task("dtd"))
    texts = method.frozen_text_features(method.training_group())
    torch.testing.assert_close(method._tuned_texts(), texts)


def test_after_a_task_the_adapter_is_gone_and_texts_and_mixtures_are_kept(lada):
    state = lada.task_state(1)
    assert not any(name.startswith("adapter") for name in state)
    width = lada.backbone.feature_width
    assert state["kept.texts"].shape == (3, width)
    assert state["kept.mean"].shape == (3 * 4, width)
    torch.testing.assert_close(state["kept.share"].view(3, 4).sum(dim=1), torch.ones(3))
    assert state["vectors"].shape == (3 * 8, width)  # eight images a class are fewer than sixteen memories


def test_earlier_classes_take_part_in_the_loss_by_drawn_features():
    def trained(**settings):
        method = learn(toy_method("lada", **settings), toy_task("aircraft"))
        first = copied(method.task_state(0))
        learn(method, toy_task("dtd"))
        assert all(torch.equal(method.task_state(0)[name], first[name]) for name in first)
        return method.task_state(1)["vectors"]

    assert not torch.equal(trained(), trained(replay_weight=0.0))


def test_classes_that_are_not_learned_are_out_once_the_best_text_is_a_learned_class(lada):
    pixels, groups = some_pixels(), [*(task.group() for task in lada.tasks), UNSEEN]
    logits = answers(lada, pixels, Candidates.across(groups))
    inside = logits.argmax(dim=1) < 5
    assert bool((logits[inside][:, 5:] < NEVER / 2).all())
    assert bool((logits[~inside][:, 5:] > NEVER / 2).all())


def test_lists_without_a_learned_name_are_plain_clips_to_the_last_bit(lada):
    question, pixels = Candidates.among(UNSEEN), some_pixels()
    assert torch.equal(answers(lada, pixels, question), answers(toy_method("zero-shot"), pixels, question))
