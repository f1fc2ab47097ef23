"""Routers that accept or reject decide by the highest score and a threshold."""

import torch

from dpw.methods.routing.route import route_by_score


def test_the_highest_score_is_chosen_and_accepted_only_above_its_own_threshold():
    scores = torch.tensor([[0.9, 0.1], [0.2, 0.3], [0.0, 0.6]])
    route = route_by_score(scores, threshold=torch.tensor([0.5, 0.5]))
    assert route.task.tolist() == [0, 1, 1]
    assert route.weight.tolist() == [1, 0, 1]


def test_without_thresholds_everything_is_accepted():
    assert route_by_score(torch.randn(4, 3)).weight.tolist() == [1, 1, 1, 1]


def test_a_vote_gives_the_whole_batch_the_task_of_its_mean_score():
    scores = torch.tensor([[0.9, 0.1], [0.2, 0.3], [0.2, 0.3]])
    route = route_by_score(scores, threshold=torch.tensor([0.4, 0.4]), vote=True)
    assert route.task.tolist() == [0, 0, 0]
    assert route.weight.tolist() == [1, 1, 1]
    per_image = torch.tensor([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    assert route_by_score(scores, threshold=per_image, vote=True).weight.tolist() == [0, 0, 0]
