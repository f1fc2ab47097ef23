"""Routers that accept or reject: k-means and prototypes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from dpw.methods.routing.routers import (
    KMeansRouter,
    PrototypeRouter,
    kmeans,
    left_out_similarity,
    route_by_score,
)
from tests.helpers.checks import nonempty


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def unit(rows: int, width: int = 6, seed: int = 0) -> torch.Tensor:
    return F.normalize(torch.randn(rows, width, generator=seeded(seed)), dim=-1)


def test_the_highest_score_is_chosen_and_accepted_only_above_its_own_threshold():
    scores = torch.tensor([[0.9, 0.1], [0.2, 0.3], [0.0, 0.6]])
    route = route_by_score(scores, least=torch.tensor([0.5, 0.5]))
    assert route.task.tolist() == [0, 1, 1]
    assert route.weight.tolist() == [1, 0, 1]


def test_without_thresholds_everything_is_accepted():
    assert route_by_score(torch.randn(4, 3)).weight.tolist() == [1, 1, 1, 1]


def test_a_vote_gives_the_whole_batch_the_task_of_its_mean_score():
    scores = torch.tensor([[0.9, 0.1], [0.2, 0.3], [0.2, 0.3]])
    route = route_by_score(scores, least=torch.tensor([0.4, 0.4]), vote=True)
    assert route.task.tolist() == [0, 0, 0]
    assert route.weight.tolist() == [1, 1, 1]
    per_image = torch.tensor([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    assert route_by_score(scores, least=per_image, vote=True).weight.tolist() == [0, 0, 0]


@settings(deadline=None, max_examples=25)
@given(points=st.integers(1, 12), clusters=st.integers(1, 6), seed=st.integers(0, 99))
def test_kmeans_ends_where_every_centre_is_the_mean_of_the_points_nearest_to_it(points, clusters, seed):
    data = torch.randn(points, 3, generator=seeded(seed))
    centres = kmeans(data, clusters, seeded(seed))
    assert len(centres) == min(clusters, points)
    members = torch.cdist(data, centres).argmin(dim=1)
    for index, centre in nonempty(enumerate(centres)):
        if (members == index).any():
            torch.testing.assert_close(centre, data[members == index].mean(dim=0))


def test_kmeans_of_equal_points_finds_one_centre():
    assert kmeans(torch.ones(5, 2), 3, seeded()).tolist() == [[1, 1]]


def test_the_nearest_centre_is_that_in_l1():
    router = KMeansRouter()
    router.add(torch.tensor([[1.0, 1.0]]))  # L1 distance 2 from the origin, L2 distance 1.41
    router.add(torch.tensor([[0.0, 1.8]]))  # L1 distance 1.8, L2 distance 1.8
    assert router.route(torch.zeros(1, 2)).task.tolist() == [1]
    router.remove(1)
    assert router.route(torch.zeros(1, 2)).task.tolist() == [0]


def test_left_out_similarity_forms_each_prototype_without_the_image():
    features, labels = unit(7), torch.tensor([0, 0, 0, 1, 1, 1, 2])
    sums = torch.stack([features[labels == label].sum(dim=0) for label in range(3)])
    expected = []
    for row in range(6):  # the last image is alone in its class
        others = [
            features[(labels == label) & (torch.arange(7) != row)].mean(dim=0) if label != 2 else features[6]
            for label in range(3)
        ]
        expected.append((F.normalize(torch.stack(others), dim=-1) @ features[row]).max())
    torch.testing.assert_close(left_out_similarity(features, labels, sums), torch.stack(expected))


def test_prototypes_reject_about_the_given_share_of_the_tasks_own_images():
    router, features, labels = PrototypeRouter(), unit(40), torch.arange(40) % 4
    router.fit(features, labels, classes=4, quantile=0.05)
    sums = torch.zeros(4, 6).index_add(0, labels, features)
    rejected = left_out_similarity(features, labels, sums) < router.least[0]
    assert rejected.sum() == 2


def test_one_image_per_class_is_too_little_to_reject_anything():
    router = PrototypeRouter()
    router.fit(unit(3), torch.arange(3), classes=3, quantile=0.05)
    assert router.route(-unit(1)).weight.tolist() == [1]


def test_only_the_tasks_that_are_asked_about_can_be_chosen():
    router = PrototypeRouter()
    for seed in (0, 1):
        router.fit(unit(8, seed=seed), torch.arange(8) % 2, classes=2, quantile=0.05)
    first = router.prototypes[0]
    assert router.route(first).task.tolist() == [0, 0]
    assert router.route(first, among=[1]).task.tolist() == [1, 1]


@pytest.mark.parametrize("clusters", [1, 3])
def test_kmeans_depends_on_its_generator_only(clusters):
    data = torch.randn(20, 3, generator=seeded(4))
    assert torch.equal(kmeans(data, clusters, seeded(7)), kmeans(data, clusters, seeded(7)))
