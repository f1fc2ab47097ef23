"""Class prototypes and the threshold below which an image is rejected."""

import torch
from torch.nn import functional as F

from dpw.methods.routing.prototypes import PrototypeRouter, fit_prototypes, left_out_similarity


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def unit(rows: int, width: int = 6, seed: int = 0) -> torch.Tensor:
    return F.normalize(torch.randn(rows, width, generator=seeded(seed)), dim=-1)


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
    features, labels = unit(40), torch.arange(40) % 4
    fitted = fit_prototypes(features, labels, classes=4, quantile=0.05)
    sums = torch.zeros(4, 6).index_add(0, labels, features)
    rejected = left_out_similarity(features, labels, sums) < fitted.threshold
    assert rejected.sum() == 2


def test_one_image_per_class_is_too_little_to_reject_anything():
    fitted = fit_prototypes(unit(3), torch.arange(3), classes=3, quantile=0.05)
    router = PrototypeRouter(lambda: [fitted])
    assert router.route(-unit(1)).weight.tolist() == [1]


def test_only_the_tasks_that_are_asked_about_can_be_chosen():
    labels = torch.arange(8) % 2
    tasks = [fit_prototypes(unit(8, seed=seed), labels, classes=2, quantile=0.05) for seed in (0, 1)]
    router, first = PrototypeRouter(lambda: tasks), tasks[0].prototypes
    assert router.route(first).task.tolist() == [0, 0]
    assert router.route(first, among=[1]).task.tolist() == [1, 1]
