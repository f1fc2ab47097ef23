"""RAIL: the published recursion, the joint solution and ours are one; order and forgetting leave no trace."""

import pytest
import torch
from torch.nn import functional as F

from dpw.methods import Candidates, ClassGroup
from dpw.methods.bank import HostTensors
from dpw.methods.parts.ridge import gaussian_kernel, one_hot
from dpw.methods.rail import as_logits, dual_weights, fused, primal_weights, random_map
from tests.helpers.toy_methods import answers, learn, some_pixels, toy_method, toy_task

WIDTH, FEATURES, CLASSES, PENALTY = 40, 16, 5, 0.1


def recursion(inverse, weights, hidden, targets):
    """One published step: R and W after a batch (W already has zero columns for new classes)."""
    core = torch.eye(len(hidden), dtype=hidden.dtype) + hidden @ inverse @ hidden.T
    inverse = inverse - inverse @ hidden.T @ torch.linalg.solve(core, hidden @ inverse)
    return inverse, weights + inverse @ hidden.T @ (targets - hidden @ weights)


@pytest.fixture
def tasks():
    """Three tasks of twenty images and five classes each."""
    generator = torch.Generator().manual_seed(0)
    features = F.normalize(torch.randn(3, 20, FEATURES, generator=generator), dim=2)
    labels = torch.arange(20) % CLASSES
    return [
        HostTensors({"features": one, "labels": labels, "classes": torch.tensor(CLASSES)}) for one in features
    ]


def hidden(features):
    return torch.relu(features @ random_map(WIDTH, FEATURES).T)


def test_the_published_recursion_and_the_joint_solution_are_ours(tasks):
    ours = primal_weights(random_map(WIDTH, FEATURES), tasks, PENALTY)
    inverse, weights = torch.eye(WIDTH).double() / PENALTY, torch.zeros(WIDTH, 0).double()
    for number, task in enumerate(tasks):
        weights = F.pad(weights, (0, CLASSES))
        for rows in torch.arange(20).split(8):
            targets = F.pad(one_hot(task["labels"][rows], CLASSES), (number * CLASSES, 0))
            inverse, weights = recursion(inverse, weights, hidden(task["features"][rows].double()), targets)
    torch.testing.assert_close(weights, ours, rtol=0, atol=1e-9)
    every = hidden(torch.cat([task["features"] for task in tasks]).double())
    wanted = torch.block_diag(*(one_hot(task["labels"], CLASSES) for task in tasks))
    gram = every.T @ every + PENALTY * torch.eye(WIDTH).double()
    torch.testing.assert_close(torch.linalg.inv(gram) @ every.T @ wanted, ours, rtol=0, atol=1e-9)


def test_the_dual_solves_the_whole_kernel(tasks):
    features, alpha = dual_weights(tasks, 0.1, 0.001)
    kernel = gaussian_kernel(features, features, 0.1) + 0.001 * torch.eye(60).double()
    wanted = torch.block_diag(*(one_hot(task["labels"], CLASSES) for task in tasks))
    torch.testing.assert_close(kernel @ alpha, wanted, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kernel", ["primal", "dual"])
def test_order_and_forgetting_change_no_bit(kernel):
    def learned(*names):
        method = toy_method("rail", kernel=kernel)
        for name in names:
            learn(method, toy_task(name))
        return method

    one, other = learned("aircraft", "dtd", "mnist"), learned("mnist", "aircraft", "dtd")
    groups = [task.group() for task in one.tasks]
    question, pixels = Candidates.learned(groups), some_pixels()
    assert torch.equal(answers(one, pixels, question), answers(other, pixels, question))
    one.forget(1)
    assert torch.equal(
        answers(one, pixels, Candidates.across(groups)),
        answers(learned("aircraft", "mnist"), pixels, Candidates.across(groups)),
    )


def test_fusion_speaks_only_where_plain_clip_chooses_a_learned_class():
    plain = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]]).double()
    regression = torch.tensor([[0.0, 1.0, 9.0], [1.0, 0.0, 9.0]]).double()
    scores = fused(plain, regression, torch.tensor([True, True, False]), 0.8)
    torch.testing.assert_close(scores[0], torch.tensor([0.14, 0.84, 0.02]).double())
    assert torch.equal(scores[1], plain[1])


def test_logits_keep_the_order_of_scores():
    scores = torch.linspace(-1, 1, 2001).double()
    assert bool((as_logits(scores).diff() > 0).all())
    torch.testing.assert_close(as_logits(torch.tensor([0.5]).double()).exp(), torch.tensor([0.5]).double())


def test_lists_without_a_learned_name_are_plain_clips_to_the_last_bit():
    method, pixels = learn(toy_method("rail"), toy_task("dtd")), some_pixels()
    question = Candidates.among(ClassGroup("unseen", ("oak", "fir")))
    assert torch.equal(answers(method, pixels, question), answers(toy_method("zero-shot"), pixels, question))


def test_it_counts_weights_and_features():
    method = learn(toy_method("rail"), toy_task("dtd"))
    width = method.backbone.feature_width
    assert method.parameter_count() == 40 * 3 + 24 * width
