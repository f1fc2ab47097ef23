"""Ridge regression: leave-one-out in closed form is what fitting without each image gives."""

import pytest
import torch
from torch.nn import functional as F

from dpw.methods.parts.ridge import (
    KernelRidge,
    gaussian_kernel,
    landmark_rows,
    one_hot,
    ridge,
    scaled_nll,
    soft_choice,
)

CLASSES, GAMMA, PENALTY = 5, 0.5, 0.1


@pytest.fixture
def problem():
    """Sixty unit features of five classes."""
    generator = torch.Generator().manual_seed(0)
    features = F.normalize(torch.randn(60, 16, generator=generator, dtype=torch.float64), dim=1)
    return features, torch.arange(60) % CLASSES


def fitted(features, landmarks, targets):
    """The solution for one penalty."""
    regression = KernelRidge(features, landmarks, GAMMA)
    return regression.fit(targets, regression.rotate(targets), PENALTY)


@pytest.mark.parametrize("landmarks", [60, 20], ids=["exact", "nystroem"])
def test_leave_one_out_is_what_fitting_without_the_image_predicts(problem, landmarks):
    features, labels = problem
    targets = one_hot(labels, CLASSES)
    found = fitted(features, features[:landmarks], targets)
    for left_out in (0, 17, 59):
        keep = torch.arange(60) != left_out
        base = features[keep] if landmarks == 60 else features[:landmarks]
        again = fitted(features[keep], base, targets[keep])
        direct = gaussian_kernel(features[left_out : left_out + 1], base, GAMMA) @ again.weights
        torch.testing.assert_close(found.leave_one_out[left_out], direct[0], rtol=0, atol=1e-8)


def test_decomposition_and_cholesky_give_the_same_weights(problem):
    features, labels = problem
    targets = one_hot(labels, CLASSES)
    direct = ridge(gaussian_kernel(features, features, GAMMA), targets, PENALTY)
    torch.testing.assert_close(fitted(features, features, targets).weights, direct, rtol=0, atol=1e-9)


def test_landmarks_that_span_all_images_change_nothing(problem):
    features, labels = problem
    twice, targets = features.repeat(2, 1), one_hot(labels, CLASSES).repeat(2, 1)
    exact = gaussian_kernel(features, twice, GAMMA) @ fitted(twice, twice, targets).weights
    spanned = gaussian_kernel(features, features, GAMMA) @ fitted(twice, features, targets).weights
    torch.testing.assert_close(spanned, exact, rtol=0, atol=1e-6)


def test_landmarks_are_taken_class_by_class():
    labels = torch.tensor([0] * 10 + [1] * 2 + [2] * 10)
    assert landmark_rows(labels, 100).tolist() == list(range(22))
    assert landmark_rows(labels, 6).tolist() == [0, 1, 10, 11, 12, 13]


def test_the_best_scale_counts_and_the_choice_is_soft():
    labels = torch.tensor([0, 1])
    scores = torch.eye(2, dtype=torch.float64)
    assert scaled_nll(scores, labels, (1.0, 50.0)) < 1e-9
    near, far = soft_choice(torch.tensor([1.0, 1.0 + 4.0]), 4.0).tolist()
    assert near / far == pytest.approx(2.718281828, rel=1e-6)
