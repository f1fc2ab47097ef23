"""Features are computed once, and wait on disk where memory is short."""

import torch

from benchmarks import models
from dpw.data.images import Images
from dpw.methods import Candidates
from dpw.methods.feature_cache import FeatureCache

BACKBONE = models.backbone("tiny")


def test_a_batch_is_frozen_only_once(monkeypatch):
    method, images = models.learned("dpw", BACKBONE, 2, 4), Images.of(models.photographs("tiny", 3))
    calls = []
    frozen = method.frozen_image_features
    monkeypatch.setattr(method, "frozen_image_features", lambda pixels: (calls.append(1), frozen(pixels))[1])
    with torch.inference_mode():
        method.logits(images, Candidates.among(models.class_group(0, 4)))
        method.route(images)
    assert len(calls) == 1


def test_features_beyond_the_limit_wait_on_disk():
    rows = torch.randn(6, 8, dtype=torch.float64)
    memory = FeatureCache(in_memory=2 * rows[0].nbytes)
    for _ in range(2):
        found = memory.recall(range(6), lambda places: rows[places])
        assert torch.equal(found, rows)
    assert memory.recall([5, 0], rows.__getitem__).equal(rows[[5, 0]])
    assert len(memory) == 6
