"""CLS scores and how normal they are."""

import pytest
import torch

from dpw import analysis
from dpw.analysis.cls_scores import gaussian_distance


def test_the_distance_of_normal_scores_is_small_and_of_others_large():
    normal = torch.randn(4000, generator=torch.Generator().manual_seed(0))
    assert gaussian_distance(normal) < 0.03
    assert gaussian_distance(normal.abs()) > 0.4
    assert gaussian_distance(torch.zeros(5)) == pytest.approx(0.5)


def test_cls_scores_of_the_training_images_have_mean_zero_and_variance_one(dpw_run):
    data = analysis.cls_scores(analysis.open_run(dpw_run, images=1000), "metals")
    assert data.standardised[1].mean().item() == pytest.approx(0, abs=1e-3)
    assert data.standardised[1].var(correction=0).item() == pytest.approx(1, abs=0.1)
