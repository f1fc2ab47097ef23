"""Alternatives to the paper's choices: where they start, and what they change."""

import torch

from dpw.methods import Candidates
from dpw.methods.dpw.variants import VariantAdaptation, VariantTower
from tests.helpers.toy_methods import (
    answers,
    learn,
    questions,
    some_pixels,
    toy_method,
    toy_task,
)

SMALL = {"adapter_rank": 4, "training.learning_rate": 0.1}


def test_the_alternatives_with_the_papers_choices_are_the_papers_module():
    method = learn(toy_method("dpw", **SMALL), toy_task("aircraft"))
    tower, layers, config = method._tower(0, "image"), method.initial.layers("image"), method.config
    same = VariantTower(dict(tower.named_parameters()), tower.heads, has_cls=True)
    same.load_state_dict(tower.state_dict())
    weight, filtered = torch.tensor([0.3, 0.9]), torch.tensor([True, False])
    x, q = torch.randn(2, 5, 48), torch.randn(2, 6, 5, 8)
    for block in range(2):
        ours = method.image_adaptation(0, weight, filtered).value(block, x, q, slice(0, 5))
        variant = VariantAdaptation(same, method.down_image, config, weight, filtered, None, layers)
        torch.testing.assert_close(variant.value(block, x, q, slice(0, 5)), ours)


def test_trained_attention_starts_as_the_frozen_one():
    frozen, trained = (
        toy_method("dpw", f"ablation/scores-{kind}attention", **SMALL) for kind in ("", "trained-")
    )
    pixels, question = some_pixels(), toy_task("aircraft")
    logits = [learn(one, question, steps=0) for one in (frozen, trained)]
    first, second = (answers(one, pixels, questions(one)[0]) for one in logits)
    torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-4)


def test_a_shared_trained_down_projection_forgets():
    method = learn(
        toy_method("dpw", "ablation/adapter-trained", image_bias=1.0, **SMALL), toy_task("aircraft")
    )
    question, pixels = Candidates.among(method.tasks[0].group()), some_pixels()
    before, down = answers(method, pixels, question), method.down_image.clone()
    learn(method, toy_task("dtd"))
    assert not torch.equal(method.down_image, down)
    method.forget(1)
    assert not torch.equal(answers(method, pixels, question), before)


def test_lora_starts_without_any_effect_of_the_adapter():
    adapted = toy_method("dpw", "ablation/adapter-lora", **SMALL)
    without = toy_method("dpw", "ablation/no-rwm", **SMALL)
    learned = [learn(one, toy_task("aircraft"), steps=0) for one in (adapted, without)]
    first, second = (answers(one, some_pixels(), questions(one)[0]) for one in learned)
    torch.testing.assert_close(first, second)
