"""An overview says what a CLIP is, and the self-check notices towers that are not transformers' own."""

import json

import pytest
import torch

from dpw.clip.backbone import Backbone
from dpw.clip.overview import overview, self_check
from tests.helpers.families import EVERY, family_backbone, save_family


@pytest.mark.parametrize("family", EVERY)
def test_an_overview_of_every_family(family):
    backbone = family_backbone(family)
    found = overview(backbone)
    assert found.family == backbone.family.name
    assert found.patches == 4
    assert found.has_cls == (not family.startswith("siglip"))
    assert found.bias == (-3.0 if found.sigmoid else 0.0)
    assert found.parameters["all"] >= found.parameters["image"] + found.parameters["text"]
    assert found.megabytes == pytest.approx(4 * found.parameters["all"] / 1e6)
    assert "padding" in found.special
    assert json.loads(json.dumps(found.as_json()))["image"]["tokens"] == backbone.image_shape.tokens


@pytest.mark.parametrize("family", EVERY)
def test_the_self_check_passes_and_notices_a_difference(family, monkeypatch):
    backbone = family_backbone(family)
    assert self_check(backbone).passed
    own = backbone.encode_texts
    monkeypatch.setattr(backbone, "encode_texts", lambda tokens: own(tokens) * 1.001)
    found = self_check(backbone)
    assert not found.passed
    assert found.text > found.image


def test_features_of_zero_length_are_no_division_by_zero():
    backbone = family_backbone("clip")
    with torch.no_grad():
        backbone.clip.visual_projection.weight.zero_()
    assert self_check(backbone).image == 0.0


def test_weights_without_transformers_own_pass_are_compared_with_the_model_of_the_folder(tmp_path):
    backbone = Backbone.from_pretrained(save_family(tmp_path / "clip", "clip"))
    backbone.clip = Weights(backbone.clip)
    assert self_check(backbone).passed


class Weights(torch.nn.Module):
    """The weights of a CLIP, without a pass of their own."""

    def __init__(self, clip):
        super().__init__()
        self.config, self.logit_scale = clip.config, clip.logit_scale
        self.text_model, self.vision_model = clip.text_model, clip.vision_model
        self.text_projection, self.visual_projection = clip.text_projection, clip.visual_projection
