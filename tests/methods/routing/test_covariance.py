"""A Gaussian in n rows says what the square one says."""

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from dpw.engine.invariance import BatchInvariance
from dpw.functional import fit_gaussian, gaussian_log_likelihood
from dpw.methods.routing.covariance import by_directions, cholesky_factor, log_likelihood
from dpw.methods.routing.estimation import diagonal_target, fit_task
from dpw.methods.routing.gaussian import HostTensors, fitted_gaussian, sample_gaussian, stored_gaussian

WIDTH = 48


def unit_features(count: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(count, WIDTH, generator=generator, dtype=torch.float64) + 1, dim=-1)


def numbers(task: HostTensors) -> int:
    return sum(one.numel() for name, one in task.tensors.items() if name != "own")


@pytest.mark.parametrize("count", [1, 2, 20, WIDTH - 3])
def test_the_papers_gaussian_of_few_images_is_the_same_in_rows(count):
    features, others = unit_features(count), unit_features(9, seed=1)
    task = sample_gaussian(features, 1e-7)
    assert numbers(task) <= (count + 3) * WIDTH
    expected = gaussian_log_likelihood(others, *fit_gaussian(features, 1e-7))
    assert_close(log_likelihood(others, task), expected, rtol=1e-8, atol=0)


@pytest.mark.parametrize("count", [1, 2, 20, WIDTH - 3])
def test_a_fitted_gaussian_of_few_images_is_the_same_in_rows(count):
    features, others = unit_features(count), unit_features(9, seed=1)
    features = torch.cat([features, features[:1]])  # the same image again says nothing new
    target = diagonal_target(features)
    task, square = fitted_gaussian(features, target, 1e-7), fit_task(features, target, 1e-7)
    expected = gaussian_log_likelihood(others, square.mean, square.cholesky)
    assert_close(log_likelihood(others, task), expected, rtol=1e-8, atol=0)
    assert torch.equal(task["own"], square.own)


def test_many_images_or_a_target_that_is_not_diagonal_stay_square():
    assert "cholesky" in sample_gaussian(unit_features(WIDTH), 1e-7).tensors
    root = unit_features(2 * WIDTH)
    target = root.T @ root / len(root)
    assert "cholesky" in fitted_gaussian(unit_features(10), target, 1e-7).tensors


def test_rows_are_stored_and_read_back_and_become_a_square_where_one_is_needed():
    features = unit_features(12)
    task = stored_gaussian({**sample_gaussian(features, 1e-3).tensors, "stranger": torch.zeros(1)})
    assert set(task.tensors) == {"mean", "added", "directions", "variances"}
    assert_close(cholesky_factor(task.tensors), fit_gaussian(features, 1e-3)[1], rtol=1e-9, atol=1e-12)


def test_an_image_gets_the_same_digits_alone_and_among_others():
    added = torch.full((WIDTH,), 1e-7, dtype=torch.float64)
    task, others = HostTensors(by_directions(unit_features(20), added)), unit_features(9, seed=1)
    with BatchInvariance():
        together = log_likelihood(others, task)
        alone = torch.cat([log_likelihood(others[[row]], task) for row in range(9)])
    assert torch.equal(together, alone)
