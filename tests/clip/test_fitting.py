"""Weights of any precision work, and parts that do not fit each other are refused in one sentence."""

import pytest
import torch

from dpw.clip.backbone import Backbone
from dpw.clip.fitting import is_finite
from dpw.clip.preprocessing import Preprocessing
from dpw.errors import InputError
from tests.helpers.families import (
    EVERY,
    family_backbone,
    family_model,
    family_preprocessing,
    family_tokenizer,
)
from tests.helpers.tiny_clip import tiny_backbone, tiny_clip
from tests.helpers.toy_methods import answers, learn, questions, some_pixels, toy_method, toy_task


@pytest.mark.parametrize("family", EVERY)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_weights_of_other_precisions_become_float32(family, dtype):
    given = family_model(family).to(dtype)
    backbone = Backbone(given, family_preprocessing(family), family_tokenizer(family))
    assert {tensor.dtype for tensor in backbone.clip.parameters()} == {torch.float32}
    features = backbone.encode_images(some_pixels())
    assert features.dtype == torch.float32
    expected = family_backbone(family).encode_images(some_pixels())
    assert torch.allclose(features, expected, atol=1e-5 if dtype == torch.float64 else 0.2)


def test_a_method_learns_on_half_precision_weights():
    backbone = Backbone(tiny_clip().half(), tiny_backbone().preprocessing, tiny_backbone().tokenizer)
    method = learn(toy_method("dpw", backbone=backbone), toy_task("aircraft"), steps=1)
    assert answers(method, some_pixels(), questions(method)[0]).isfinite().all()


def test_weights_that_are_no_floating_numbers_are_refused():
    clip = tiny_clip()
    clip.visual_projection.weight = torch.nn.Parameter(
        torch.ones(16, 48, dtype=torch.int8), requires_grad=False
    )
    with pytest.raises(InputError, match=r"visual_projection\.weight are torch\.int8"):
        Backbone(clip, tiny_backbone().preprocessing, None)


@pytest.mark.parametrize(
    ("preprocessing", "made"),
    [
        (Preprocessing(), "224x224"),
        (Preprocessing(size=(16, 24), crop=None), "16x24"),
        (Preprocessing(size=16, crop=None), "no fixed size"),
        (Preprocessing(size=None, crop=None), "no fixed size"),
    ],
    ids=str,
)
def test_a_preprocessing_that_does_not_fit_the_tower_is_refused(preprocessing, made):
    with pytest.raises(InputError, match=f"{made}.*16x16"):
        Backbone(tiny_clip(), preprocessing, None, "mine")


def test_towers_that_lead_into_different_spaces_are_refused():
    clip = family_model("siglip")
    clip.config.text_config.projection_size = 24
    with pytest.raises(InputError, match="images become 48 numbers and texts 24"):
        Backbone(clip, family_preprocessing("siglip"), None)
    clip.config.vision_config.vision_use_head = False
    with pytest.raises(InputError, match="no pooling head"):
        Backbone(clip, family_preprocessing("siglip"), None)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_one_number_that_is_none_is_found_wherever_it_stands(dtype, value):
    for size in (1, 7, 16, 33, 1000):
        numbers = torch.arange(size, dtype=dtype)
        assert is_finite(numbers)
        for position in {0, size // 2, size - 1}:
            broken = numbers.clone()
            broken[position] = value
            assert not is_finite(broken)


def test_no_numbers_and_a_single_one_are_finite():
    assert is_finite(torch.empty(0, 3))
    assert is_finite(torch.tensor(2.0))
    assert not is_finite(torch.tensor(torch.nan))
