"""Zero-shot: the answers are those of transformers' own CLIPModel."""

import torch

from dpw.data.images import Images
from dpw.methods import Candidates, ClassGroup
from dpw.methods.feature_cache import FeatureCache
from tests.helpers.toy_methods import answers, learn, some_pixels, toy_method, toy_task

GROUP = ClassGroup("trees", ("oak", "fir"), ("a photo of a {}.",))


def test_equals_the_clip_model_of_transformers():
    method = toy_method("zero-shot")
    backbone, pixels = method.backbone, some_pixels()
    with torch.no_grad():
        whole = backbone.clip(input_ids=method.tokens(GROUP), pixel_values=backbone.normalized(pixels))
    torch.testing.assert_close(answers(method, pixels, Candidates.among(GROUP)), whole.logits_per_image)


def test_a_task_changes_nothing_and_can_be_forgotten():
    method, pixels = toy_method("zero-shot"), some_pixels()
    before = answers(method, pixels, Candidates.among(GROUP))
    learn(method, toy_task("dtd"))
    assert torch.equal(answers(method, pixels, Candidates.among(GROUP)), before)
    method.forget(0)
    assert method.task_names == []


def test_no_image_goes_through_the_tower_twice():
    method, pixels = toy_method("zero-shot"), some_pixels()
    expected = answers(method, pixels, Candidates.among(GROUP))
    method.feature_cache = FeatureCache()
    fetched = []

    def load(rows):
        fetched.extend(rows)
        return pixels[list(rows)]

    for _ in range(2):
        images = Images(load, len(pixels), [f"image {row}" for row in range(len(pixels))])
        with torch.no_grad():
            assert torch.equal(method.logits(images, Candidates.among(GROUP)), expected)
    assert fetched == list(range(len(pixels)))


def test_templates_are_averaged_after_normalisation():
    method, pixels = toy_method("zero-shot"), some_pixels()
    both = ClassGroup("trees", GROUP.classes, ("a photo of a {}.", "the {}."))
    with torch.no_grad():
        parts = [method.frozen_text_features(ClassGroup("x", both.classes, (one,))) for one in both.templates]
        mean = torch.nn.functional.normalize(sum(parts) / 2, dim=-1)
        torch.testing.assert_close(method.frozen_text_features(both), mean)
    assert answers(method, pixels, Candidates.among(both)).shape == (6, 2)
