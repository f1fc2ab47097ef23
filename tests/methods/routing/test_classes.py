"""Gaussians of classes: left-out likelihoods in closed form, and a mean for each class only where it pays."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from dpw.engine.invariance import BatchInvariance
from dpw.methods.graphs.routing import GaussianGraph
from dpw.methods.routing.classes import fit_classes
from dpw.methods.routing.covariance import CENTRES, log_likelihood, mean_differences
from dpw.methods.routing.estimation import diagonal_target
from dpw.methods.routing.gaussian import GaussianRouter, fitted_gaussian, stored_gaussian

WIDTH, FLOOR = 6, 1e-7


def clustered(classes: int, each: int, apart: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    centres = apart * torch.randn(classes, WIDTH, generator=generator, dtype=torch.float64)
    labels = torch.arange(classes).repeat_interleave(each)
    noise = torch.randn(len(labels), WIDTH, generator=generator, dtype=torch.float64)
    return centres[labels] + noise, labels


def mixture(images: Tensor, labels: Tensor, added: Tensor, asked: Tensor) -> Tensor:
    """The average Gaussian of classes, written down as it is defined."""
    present = labels.unique()
    means = torch.stack([images[labels == label].mean(dim=0) for label in present])
    residuals = torch.cat(
        [images[labels == label] - mean for label, mean in zip(present, means, strict=True)]
    )
    covariance = residuals.T @ residuals / (len(images) - len(means)) + torch.diag(added)
    each = [torch.distributions.MultivariateNormal(mean, covariance).log_prob(asked) for mean in means]
    return torch.logsumexp(torch.stack(each), dim=0) - math.log(len(means))


@pytest.mark.parametrize(("classes", "each"), [(3, 9), (2, 14), (8, 4)])
def test_left_out_likelihoods_are_those_of_leaving_out(classes, each):
    images, labels = clustered(classes, each, apart=3)
    images, labels = images[:-1], labels[:-1]
    found = fit_classes(images, labels, FLOOR)
    assert found is not None
    expected = []
    for row in range(len(images)):
        others = torch.arange(len(images)) != row
        expected.append(mixture(images[others], labels[others], found.added, images[row]))
    assert_close(found.own, torch.stack(expected).sort().values, rtol=1e-9, atol=1e-9)


def test_the_only_image_of_a_class_is_judged_by_the_other_classes():
    images, labels = clustered(3, 9, apart=3)
    images, labels = torch.cat([images, images[:1] + 50]), torch.cat([labels, torch.tensor([3])])
    found = fit_classes(images, labels, FLOOR)
    assert found is not None
    assert len(found.means) == 4
    assert found.own[0] < found.own[1] - 100  # far from every class that is left


def test_an_image_given_twice_counts_once():
    images, labels = clustered(3, 9, apart=3)
    once = fit_classes(images, labels, FLOOR)
    twice = fit_classes(torch.cat([images, images]), torch.cat([labels, labels]), FLOOR)
    assert once is not None
    assert twice is not None
    assert_close(once.means, twice.means)
    assert_close(once.own, twice.own)


@pytest.mark.parametrize(("classes", "each"), [(5, 1), (3, 7), (30, 1)])
def test_few_images_say_nothing_about_classes(classes, each):
    assert fit_classes(*clustered(classes, each, apart=3), FLOOR) is None


@pytest.mark.parametrize(("apart", "several"), [(8.0, True), (0.0, False)])
def test_a_task_has_class_means_where_left_out_images_are_likelier_so(apart, several):
    images, labels = clustered(24, 2, apart)
    task = fitted_gaussian(images, diagonal_target(images), FLOOR, labels)
    assert (CENTRES in task.tensors) == several
    assert CENTRES not in fitted_gaussian(images, diagonal_target(images), FLOOR).tensors


def wide(each: int) -> tuple[Tensor, Tensor]:
    """Features with more numbers than there are images, or fewer."""
    images, labels = clustered(3, each, apart=6)
    generator = torch.Generator().manual_seed(5)
    return images @ torch.randn(WIDTH, 40, generator=generator, dtype=torch.float64), labels


@pytest.mark.parametrize("each", [10, 20])
def test_likelihoods_survive_storing_batches_and_export(each):
    images, labels = wide(each)
    task = fitted_gaussian(images, diagonal_target(images), FLOOR, labels)
    assert CENTRES in task.tensors
    found = fit_classes(images, labels, FLOOR)
    assert found is not None
    asked = images[:7] + 0.1
    expected = mixture(images, labels, found.added, asked)
    assert_close(log_likelihood(asked, stored_gaussian(task.tensors)), expected, rtol=1e-7, atol=1e-7)
    assert_close(task["mean"] + mean_differences(task.tensors), found.means, rtol=1e-9, atol=1e-9)
    with BatchInvariance():
        alone = log_likelihood(asked[:1], task)
        assert torch.equal(alone, log_likelihood(asked, task)[:1])
    single = fitted_gaussian(images, diagonal_target(images), FLOOR)
    router = GaussianRouter(lambda: [task, single], 0.8, fitted=True)
    graph = GaussianGraph(router)
    assert_close(graph.log_likelihood(asked), router.log_likelihood(asked), rtol=1e-4, atol=1e-3)
