"""Text features by weight: many at once, each only once."""

import pytest
import torch
from torch.nn import functional as F

from benchmarks import models
from dpw.methods import Candidates
from dpw.methods.parts.weighted_texts import WeightedTexts, points_of
from tests.helpers.toy_methods import answers, learn, reload, some_pixels, toy_method, toy_task

BACKBONE = models.backbone("tiny")

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@torch.no_grad()
@pytest.mark.parametrize("name", ["dpw", "dpw-reduced", "diki"])
def test_many_weights_at_once_equal_one_after_another(name):
    method = models.learned(name, BACKBONE, 1, 4)
    group = models.class_group(0, 4)
    weight, gate = torch.tensor([0.0, 0.3, 0.9], dtype=torch.float64), torch.tensor([False, True, False])
    together = method.answers.encode_texts(0, group, weight, gate)
    single = [method.answers.encode_texts(0, group, weight[[row]], gate[[row]])[0] for row in range(3)]
    torch.testing.assert_close(together, torch.stack(single), **CLOSE)


@torch.inference_mode()
def test_exact_texts_are_kept_by_task_classes_and_weight():
    method = models.learned("dpw", BACKBONE, 2, 4, text_weight="exact")
    group = models.class_group(0, 4)
    calls = []
    encode = method.answers.texts.encode
    method.answers.texts.encode = lambda *question: (calls.append(1), encode(*question))[1]
    features = F.normalize(torch.randn(3, BACKBONE.feature_width), dim=-1)
    weight, gate = torch.tensor([0.25, 0.5, 0.25]), torch.zeros(3, dtype=torch.bool)
    for _ in range(2):
        method.answers.texts.cosines(features, 0, group, weight, gate)
    assert len(calls) == 2


def test_points_of_the_grid_reach_the_gate_from_both_sides():
    assert points_of(4, 0.5) == [(0, True), (1, True), (2, True), (2, False), (3, False), (4, False)]
    assert points_of(4, 0.6)[:4] == [(0, True), (1, True), (2, True), (3, True)]
    assert points_of(4, 0.6)[4:] == [(2, False), (3, False), (4, False)]
    assert points_of(4, 1.0)[-2:] == [(3, False), (4, False)]


def test_texts_of_a_task_are_stored_with_it_and_give_the_digits_of_a_model_without(monkeypatch):
    method, pixels = toy_method("dpw"), some_pixels()
    for name in ("dtd", "mnist"):
        learn(method, toy_task(name))
    question = Candidates.learned([task.group() for task in method.tasks])
    stored = reload(method)
    monkeypatch.setattr(stored.answers.texts, "encode", None)  # nothing is left to encode
    old = reload(method)
    for module in old.bank:
        del module["router"].tensors["texts"]
    first = answers(old, pixels[:1], question)
    assert torch.equal(answers(stored, pixels, question), answers(old, pixels, question))
    assert torch.equal(answers(old, pixels[:1], question), first)


def test_a_point_has_the_same_company_whatever_was_asked_before():
    asked = []

    def encode(task, group, weight, filtered):
        asked.append((round(8 * float(weight[0])), len(weight), bool(filtered[0])))
        return torch.stack([torch.full((2, 3), float(one)) for one in weight])

    group = models.class_group(0, 2)
    stored = {(4, True): torch.full((2, 3), 7.0)}
    texts = WeightedTexts(encode, "grid", 8, lambda *_: stored, lambda _: 3)
    texts._fill(0, group, {(8, False)})
    assert asked == [(6, 3, False)]
    texts._fill(0, group, {(3, True), (6, False)})
    assert asked[1:] == [(3, 3, True)]
    assert float(texts._grid[0, group, 5, True][0, 0]) == 5 / 8
    assert float(texts._grid[0, group, 4, True][0, 0]) == 7.0  # what is stored counts
