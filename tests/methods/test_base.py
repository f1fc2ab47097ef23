"""A task that was stopped half-way leaves nothing behind in methods with parameters per task."""

import pytest
import torch

from tests.helpers.toy_methods import Trainer, answers, learn, questions, some_pixels, toy_method, toy_task

NAMES = ("coda-prompt", "coleclip", "dpeclip", "dualprompt", "l2p", "moe-adapters", "s-prompts")


@pytest.mark.parametrize("name", NAMES)
def test_an_abandoned_task_can_be_learned_again_as_if_it_were_the_first_time(name):
    settings = {"router_iterations": 20, "reference_iterations": 20} if name == "moe-adapters" else {}
    method = learn(toy_method(name, **settings), toy_task("aircraft"))
    pixels, question = some_pixels(), questions(method)[0]
    before, count = answers(method, pixels, question), method.parameter_count()
    memento = method.remember()
    Trainer(method, toy_task("dtd")).run(1)
    method.abandon(memento)
    method.eval()
    assert method.task_names == ["aircraft"]
    assert method.parameter_count() == count
    assert not method.trainable()
    assert torch.equal(answers(method, pixels, question), before)
    learn(method, toy_task("dtd"))
    straight = toy_method(name, **settings)
    for task in ("aircraft", "dtd"):
        learn(straight, toy_task(task))
    for question in questions(straight):
        assert torch.equal(answers(method, pixels, question), answers(straight, pixels, question))
