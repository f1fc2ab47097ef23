"""DPeCLIP, reconstructed: prototypes that tell the task and become prompts."""

import torch

from dpw.data.images import Images
from dpw.methods import METHODS, Candidates, ClassGroup
from tests.helpers.toy_methods import (
    ToyImages,
    Trainer,
    answers,
    learn,
    questions,
    some_pixels,
    toy_method,
    toy_task,
)


def dpeclip(*tasks: str, **settings):
    method = toy_method("dpeclip", **settings)
    for task in tasks:
        learn(method, toy_task(task))
    return method


def task_pixels(method, name: str) -> torch.Tensor:
    return next(ToyImages(toy_task(name).train, method.backbone).batches())[0]


def test_it_says_that_it_is_a_reconstruction():
    assert "reconstruction" in METHODS["dpeclip"].status
    assert "reconstruction" in METHODS["dpeclip"].summary


def test_prompts_depend_on_prototypes_only_after_learning():
    method = toy_method("dpeclip")
    Trainer(method, toy_task("dtd"))
    prompts = method.bank[0]
    tokens = prompts.text_tokens([0, 1, 2])
    assert torch.equal(tokens[0], tokens[2])
    assert torch.equal(prompts.image_tokens(), prompts.image_token)
    learned = dpeclip("dtd").bank[0]
    assert not torch.equal(learned.text_tokens([0]), learned.text_tokens([2]))


def test_prompts_never_outnumber_the_classes():
    assert dpeclip("aircraft").bank[0].image_token.shape[0] == 2


def test_classes_of_no_learned_task_are_answered_by_plain_clip():
    method, pixels = dpeclip("aircraft"), some_pixels()
    question = Candidates.among(ClassGroup("mixed", ("oak", "jet")))
    plain = answers(toy_method("zero-shot"), pixels, question)
    torch.testing.assert_close(answers(method, pixels, question), plain)


def test_images_unlike_a_task_are_answered_by_plain_clip():
    method = dpeclip("aircraft", "dtd", reject_quantile=0.5)
    question = questions(method)[0]
    pixels = torch.cat([task_pixels(method, "aircraft"), task_pixels(method, "dtd")])
    accepted = method._route(Images.of(pixels), among=[0]).weight > 0
    assert accepted.any()
    assert not accepted.all()
    ours, plain = answers(method, pixels, question), answers(toy_method("zero-shot"), pixels, question)
    torch.testing.assert_close(ours[~accepted], plain[~accepted])
    assert ((ours - plain).abs()[accepted] > 1e-2).any(dim=1).all()


def test_some_of_a_tasks_classes_are_enough_to_use_its_prompts():
    method = dpeclip("dtd", reject_quantile=0.0)
    pixels = task_pixels(method, "dtd")
    whole = answers(method, pixels, questions(method)[0])
    task = method.tasks[0]
    some = ClassGroup("some", task.classes[1:], task.group().templates)
    torch.testing.assert_close(answers(method, pixels, Candidates.among(some)), whole[:, 1:])


def test_class_incrementally_only_the_chosen_tasks_classes_can_win():
    method = dpeclip("aircraft", "dtd", reject_quantile=0.0)
    question = Candidates.learned([task.group() for task in method.tasks])
    pixels = torch.cat([task_pixels(method, "aircraft"), task_pixels(method, "dtd")])
    route = method.route(Images.of(pixels))
    winners = answers(method, pixels, question).argmax(dim=1)
    accepted = route.weight > 0
    assert accepted.any()
    assert torch.equal((winners >= 2).long()[accepted], route.task[accepted])
