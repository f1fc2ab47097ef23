"""k-means centres, and the router over them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpw.methods.bank import HostTensors
from dpw.methods.routing.kmeans import KMeansRouter, kmeans
from tests.helpers.checks import nonempty


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


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
    # L1 distance 2 from the origin and L2 distance 1.41; L1 distance 1.8 and L2 distance 1.8.
    tasks = [HostTensors({"centres": torch.tensor([row])}) for row in ([1.0, 1.0], [0.0, 1.8])]
    router = KMeansRouter(lambda: tasks)
    assert router.route(torch.zeros(1, 2)).task.tolist() == [1]
    del tasks[1]
    assert router.route(torch.zeros(1, 2)).task.tolist() == [0]


@pytest.mark.parametrize("clusters", [1, 3])
def test_kmeans_depends_on_its_generator_only(clusters):
    data = torch.randn(20, 3, generator=seeded(4))
    assert torch.equal(kmeans(data, clusters, seeded(7)), kmeans(data, clusters, seeded(7)))
