"""The linear probe that learning is compared with."""

import torch
from torch.nn import functional as F

from dpw.engine.probe import probe_predictions


def clusters(a_class: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(3).repeat_interleave(a_class)
    features = F.one_hot(labels, 8).float() + 0.2 * torch.randn(len(labels), 8, generator=generator)
    return F.normalize(features, dim=-1), labels


def test_separable_classes_are_found():
    features, labels = clusters(6)
    asked, expected = clusters(4, seed=1)
    assert torch.equal(probe_predictions(features, labels, asked, 3), expected)


def test_one_image_a_class_is_enough():
    features, labels = clusters(1)
    asked, expected = clusters(4, seed=1)
    assert (probe_predictions(features, labels, asked, 3) == expected).float().mean() > 0.8


def test_the_order_of_classes_in_the_images_does_not_matter():
    features, labels = clusters(5)
    asked, _ = clusters(4, seed=1)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    first = probe_predictions(features, labels, asked, 3)
    assert torch.equal(first, probe_predictions(features[order], labels[order], asked, 3))
