"""A task's Gaussian from any number of images: the paper's with enough, regularised with few."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from dpw.functional import fit_gaussian, gaussian_log_likelihood
from dpw.methods.routing.estimation import (
    KEPT,
    diagonal_target,
    fit_task,
    left_out,
    projection_target,
    thinned,
)
from tests.helpers.checks import nonempty

WIDTH, FLOOR = 6, 1e-7


def unit(rows: int, seed: int = 0, width: int = WIDTH) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(rows, width, generator=generator, dtype=torch.float64) + 1, dim=-1)


def target() -> torch.Tensor:
    return torch.eye(WIDTH, dtype=torch.float64) / WIDTH


def test_with_twice_as_many_images_as_numbers_it_is_the_papers_to_the_digit():
    features = unit(2 * WIDTH)
    found = fit_task(features, target(), FLOOR)
    mean, cholesky = fit_gaussian(features, FLOOR)
    assert found.ridge == 0
    assert torch.equal(found.mean, mean)
    assert torch.equal(found.cholesky, cholesky)


@settings(max_examples=20, deadline=None)
@given(count=st.integers(2, 2 * WIDTH - 1), seed=st.integers(0, 99))
def test_with_fewer_it_is_regularised_and_every_image_has_a_likelihood(count, seed):
    found = fit_task(unit(count, seed), target(), FLOOR)
    assert found.ridge > 0
    assert len(found.own) == count
    assert found.own.isfinite().all()
    assert torch.equal(found.own, found.own.sort().values)


@pytest.mark.parametrize("count", [3, 5, 20])
def test_leaving_one_out_equals_fitting_the_others(count):
    features = unit(count)
    added = FLOOR * torch.eye(WIDTH, dtype=torch.float64) + 0.05 * target()
    expected = []
    for row in range(count):
        others = features[[index for index in range(count) if index != row]]
        mean = others.mean(dim=0)
        centred = others - mean
        covariance = centred.T @ centred / max(len(others) - 1, 1) + added
        expected.append(
            gaussian_log_likelihood(features[row : row + 1], mean, torch.linalg.cholesky(covariance))
        )
    torch.testing.assert_close(left_out(features - features.mean(dim=0), added), torch.cat(expected))


def test_one_image_is_enough_and_copies_of_it_are_one_image():
    single = fit_task(unit(1), target(), FLOOR)
    copies = fit_task(unit(1).repeat(5, 1), target(), FLOOR)
    assert single.ridge == copies.ridge > 0
    assert torch.equal(single.cholesky, copies.cholesky)
    assert len(single.own) == len(copies.own) == 1


def test_targets_are_covariances_of_trace_one():
    projection = torch.randn(4, 7, generator=torch.Generator().manual_seed(0))
    targets = [
        projection_target(projection, torch.ones(7)),
        diagonal_target(unit(5)),
        diagonal_target(unit(1)),
    ]
    for one in nonempty(targets):
        assert float(one.trace()) == pytest.approx(1)
        assert (torch.linalg.eigvalsh(one) >= -1e-12).all()


def test_many_likelihoods_are_thinned_evenly():
    kept = thinned(torch.arange(5000.0))
    assert len(kept) == KEPT
    assert (kept[0], kept[-1]) == (0, 4999)
    assert math.isclose(float(kept.median()), 2499.5, abs_tol=1)
