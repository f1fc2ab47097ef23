"""Similarity of queries, and tokens in a plane."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpw import analysis
from dpw.analysis.queries import border_contrast, principal_plane, separation, token_cosines, umap_plane
from dpw.errors import InputError


def test_cosines_of_equal_and_opposite_tokens_are_known():
    tokens = torch.tensor([[[1.0, 0], [2, 0], [0, 1], [-1, 0]]])
    relevant = torch.tensor([[True, True, False, False]])
    irrelevant = torch.tensor([[False, False, True, True]])
    within, across = token_cosines(tokens, relevant, irrelevant)
    assert within == pytest.approx(1.0)
    assert across == pytest.approx(-0.5)


def test_the_object_in_the_middle_is_what_differs_from_the_border():
    pixels = torch.full((1, 3, 9, 9), 200, dtype=torch.uint8)
    pixels[..., 3:6, 3:6] = 20
    assert border_contrast(pixels, 3).argmax() == 4


def test_query_similarity_has_four_values_for_each_block(subject):
    data = analysis.query_similarity(subject, "birds")
    for values in (data.within_before, data.across_before, data.within_after, data.across_after):
        assert len(values) == 2
        assert all(-1.001 <= value <= 1.001 for value in values)
    assert not (data.relevant & data.irrelevant).any()


def test_relevance_can_be_given(subject):
    marked = torch.tensor([[0.0, 0, 0, 1]]).repeat(len(subject.pixels(subject.tasks[0])), 1)
    assert analysis.query_similarity(subject, "birds", marked).relevant.tolist() == [
        False,
        False,
        False,
        True,
    ]


@given(st.integers(3, 20), st.integers(2, 6), st.integers(0, 1000))
def test_the_first_axis_of_the_plane_has_the_largest_variance(points, width, seed):
    generator = torch.Generator().manual_seed(seed)
    cloud = torch.randn(points, width, generator=generator, dtype=torch.float64)
    plane = principal_plane(cloud)
    assert plane[:, 0].var() >= plane[:, 1].var() - 1e-12
    distances = torch.linalg.vector_norm(plane, dim=1)
    assert bool((distances <= torch.linalg.vector_norm(cloud - cloud.mean(dim=0), dim=1) + 1e-9).all())


def test_separation_is_one_for_two_points_apart_and_zero_for_mixed_clouds():
    labels = torch.tensor([0, 0, 1, 1])
    assert separation(torch.tensor([[1.0, 0], [1, 0], [-1, 0], [-1, 0]]), labels) == pytest.approx(1)
    assert separation(torch.tensor([[1.0, 0], [-1, 0], [1, 0], [-1, 0]]), labels) == pytest.approx(0)


def test_token_plane_shows_both_tasks_before_and_after(subject):
    data = analysis.token_plane(subject, ("birds", "signs"), block=1)
    assert data.before.shape == data.after.shape == (len(data.labels), 2)
    assert set(data.labels.tolist()) == {0, 1}
    with pytest.raises(InputError, match="block 7 does not exist"):
        analysis.token_plane(subject, ("birds", "signs"), block=7)
    with pytest.raises(InputError, match="no task called 'cars'"):
        analysis.token_plane(subject, ("birds", "cars"))


def test_umap_is_an_extra():
    try:
        import umap  # noqa: F401
    except ImportError:
        with pytest.raises(InputError, match=r"dpw\[umap\]"):
            umap_plane(torch.zeros(4, 2))
