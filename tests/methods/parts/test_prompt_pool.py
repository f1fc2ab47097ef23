"""What all methods with a prompt pool and a linear head share."""

import dataclasses

import pytest
import torch

from dpw.errors import InputError
from dpw.methods import METHODS, Candidates, ClassGroup
from tests.helpers.toy_methods import answers, learn, questions, some_pixels, toy_method, toy_task

POOLS = ("coda-prompt", "dualprompt", "l2p")

every_pool = pytest.mark.parametrize("name", POOLS)


@every_pool
def test_without_a_text_tower_there_is_no_zero_shot(name):
    assert not METHODS[name].zero_shot
    method = toy_method(name)
    with pytest.raises(InputError, match="before its first task"):
        answers(method, some_pixels(), Candidates.among(ClassGroup("trees", ("oak",))))
    learn(method, toy_task("aircraft"))
    with pytest.raises(InputError, match="never learned the class 'oak'"):
        answers(method, some_pixels(), Candidates.among(ClassGroup("trees", ("jet", "oak"))))


@every_pool
def test_a_name_that_comes_back_keeps_its_row_and_learns_on(name):
    method = learn(toy_method(name), toy_task("aircraft"))
    before = method.heads[0].weight.clone()
    learn(method, dataclasses.replace(toy_task("dtd"), classes=("wool", "jet", "mesh")))
    assert method.rows() == {"jet": (0, 0), "kite": (0, 1), "wool": (1, 0), "mesh": (1, 1)}
    assert not torch.equal(method.heads[0].weight[0], before[0])
    assert torch.equal(method.heads[0].weight[1], before[1])
    logits = answers(method, some_pixels(), Candidates.learned([task.group() for task in method.tasks]))
    assert torch.equal(logits[:, 0], logits[:, 3])


@every_pool
def test_a_task_incremental_answer_is_part_of_the_class_incremental_one(name):
    method = toy_method(name)
    for task in ("aircraft", "dtd"):
        learn(method, toy_task(task))
    first, second, everything = (answers(method, some_pixels(), question) for question in questions(method))
    torch.testing.assert_close(torch.cat([first, second], dim=1), everything)
