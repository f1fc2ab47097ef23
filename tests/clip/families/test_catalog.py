"""The towers of every family equal transformers' own, and what is of no family is refused."""

import pytest
import torch
from transformers import BertConfig, BertModel

from dpw.clip.adaptation import Adaptation
from dpw.clip.backbone import Backbone
from dpw.clip.families import FAMILIES, family_of
from dpw.errors import InputError
from tests.helpers.families import (
    EVERY,
    OTHERS,
    SIDE,
    family_backbone,
    family_model,
    padded_by_hand,
    reference_features,
)

PROMPTS = ["a cat.", "a photo of a very old dog.", "x"]
every_family = pytest.mark.parametrize("family", EVERY)
HIDES_PADDING = ("chinese_clip", "altclip")


class Nothing(Adaptation):
    """Adds nothing, token by token."""

    token_by_token = True


@pytest.fixture(scope="module")
def backbones() -> dict[str, Backbone]:
    """The tiny models; tests must not change them."""
    return {family: family_backbone(family) for family in EVERY}


def given_mask(backbone: Backbone, tokens: torch.Tensor) -> torch.Tensor | None:
    """The attention mask that transformers' own processor gives, where the family has one."""
    if backbone.family.name not in HIDES_PADDING:
        return None
    return (tokens != backbone.tokenizer.pad_token_id).long()


def test_every_description_has_a_tiny_model():
    assert {family_of(family_model(family)).name for family in EVERY} == set(FAMILIES)


@every_family
def test_image_features_equal_transformers(backbones, family):
    backbone, pixels = backbones[family], torch.randn(3, 3, SIDE, SIDE)
    with torch.no_grad():
        expected = backbone.clip.get_image_features(pixel_values=pixels).pooler_output
        assert torch.allclose(backbone.encode_images(pixels), expected, atol=1e-5)
        assert torch.allclose(backbone.encode_with_patches(pixels)[0], expected, atol=1e-5)
    assert expected.shape[1] == backbone.feature_width
    assert expected.std() > 0.1


@every_family
def test_text_features_equal_transformers_with_and_without_padding(backbones, family):
    backbone = backbones[family]
    with torch.no_grad():
        together = backbone.tokenize(PROMPTS)
        expected = reference_features(backbone.clip, together, given_mask(backbone, together))
        assert torch.allclose(backbone.encode_texts(together), expected, atol=1e-5)
        for index, prompt in enumerate(PROMPTS):
            alone = torch.tensor(backbone.tokenizer([prompt])["input_ids"])
            own = reference_features(backbone.clip, alone)
            assert torch.allclose(backbone.encode_texts(alone), own, atol=1e-5)
            if family not in ("siglip", "siglip2"):  # these read padding like any other token
                assert torch.allclose(own[0], expected[index], atol=1e-5)
    assert expected.std() > 0.1


@every_family
def test_prompts_padded_to_the_whole_context_equal_transformers(backbones, family):
    backbone = backbones[family]
    rows = backbone.tokenizer(PROMPTS)["input_ids"]
    tokens = padded_by_hand(rows, backbone.text_shape.tokens, backbone.tokenizer.pad_token_id)
    with torch.no_grad():
        expected = reference_features(backbone.clip, tokens, given_mask(backbone, tokens))
        assert torch.allclose(backbone.encode_texts(tokens), expected, atol=1e-5)
        assert torch.allclose(backbone.encode_texts(backbone.tokenize(PROMPTS)), expected, atol=1e-5)


@every_family
def test_an_adaptation_that_adds_nothing_changes_nothing(backbones, family):
    backbone, pixels = backbones[family], torch.randn(2, 3, SIDE, SIDE)
    tokens = backbone.tokenize(PROMPTS)
    with torch.no_grad():
        assert torch.equal(backbone.encode_images(pixels, Adaptation()), backbone.encode_images(pixels))
        plain = backbone.encode_texts(tokens)
        assert torch.allclose(backbone.encode_texts(tokens, Adaptation()), plain, atol=1e-5)
        copies = backbone.encode_copies(tokens, 3, Nothing())
    assert torch.allclose(copies, plain.expand(3, -1, -1), atol=1e-5)


@every_family
def test_long_class_lists_are_run_in_parts(backbones, family, monkeypatch):
    backbone = backbones[family]
    tokens = backbone.tokenize([*PROMPTS, "a dog.", "a house."])
    with torch.no_grad():
        expected = backbone.encode_copies(tokens, 2, None)
        monkeypatch.setattr("dpw.clip.backbone.SIDE_BY_SIDE", 2 * tokens.shape[1] * 2)
        assert torch.allclose(backbone.encode_copies(tokens, 2, None), expected, atol=1e-5)


@every_family
def test_gradients_flow_and_checkpointing_changes_none(backbones, family):
    twin = backbones[family].trainable_copy()
    pixels, tokens = torch.randn(2, 3, SIDE, SIDE), twin.tokenize(PROMPTS)

    def gradients() -> dict[str, torch.Tensor]:
        twin.zero_grad()
        (twin.encode_images(pixels).sum() + twin.encode_texts(tokens).sum()).backward()
        named = twin.clip.named_parameters()
        return {name: tensor.grad.clone() for name, tensor in named if tensor.grad is not None}

    expected = gradients()
    twin.gradient_checkpointing = True
    found = gradients()
    assert found.keys() == expected.keys()
    assert {name for name, tensor in twin.clip.named_parameters() if tensor.requires_grad} == expected.keys()
    for name, gradient in expected.items():
        assert torch.allclose(found[name], gradient, atol=1e-4), name


def test_a_token_alone_is_projected_as_if_it_were_the_image():
    backbone = family_backbone("siglip")
    tokens = torch.randn(2, 3, backbone.image_shape.width)
    with torch.no_grad():
        alone = backbone.project_images(tokens)
        one = backbone.clip.vision_model.head(
            backbone.clip.vision_model.post_layernorm(tokens[1, 2].view(1, 1, -1))
        )
        same = tokens[:1, :1].expand(1, backbone.image_shape.tokens, -1)
        assert torch.allclose(alone[1, 2], one[0], atol=1e-5)
        assert torch.allclose(backbone.pool_images(same)[0], alone[0, 0], atol=1e-5)


def test_added_tokens_are_not_pooled():
    backbone = family_backbone("siglip")
    count, width = backbone.image_shape.tokens, backbone.image_shape.width
    tokens = torch.randn(2, count + 3, width)
    with torch.no_grad():
        assert torch.equal(backbone.pool_images(tokens), backbone.pool_images(tokens[:, :count]))


@pytest.mark.parametrize("family", OTHERS)
def test_the_linear_part_leads_from_token_to_feature(backbones, family):
    backbone = backbones[family]
    weight, scale = backbone.image_projection()
    assert weight.shape == (backbone.feature_width, backbone.image_shape.width)
    assert scale.shape == (backbone.image_shape.width,)


def test_families_with_equal_weights_have_other_fingerprints():
    meta = family_backbone("metaclip_2")
    known = meta.fingerprint(), meta.weights_fingerprint()
    meta.family, meta._fingerprint = FAMILIES["clip"], None
    assert meta.fingerprint() != known[0]
    assert meta.weights_fingerprint() != known[1]


def test_a_model_of_no_family_is_refused_in_one_sentence():
    bert = BertModel(
        BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    )
    with pytest.raises(InputError, match=r"BertModel.*'bert'.*SigLIP"):
        Backbone(bert, family_backbone("clip").preprocessing, None)
    with pytest.raises(InputError, match="cannot use a CLIPVisionModel"):
        from transformers import CLIPVisionModel

        Backbone(CLIPVisionModel(family_model("clip").config.vision_config), None, None)  # type: ignore[arg-type]


def test_the_first_end_of_text_of_a_metaclip_2_is_not_the_largest_id():
    backbone = family_backbone("metaclip_2")
    tokens = backbone.tokenize(PROMPTS)
    assert backbone.clip.text_model.eos_token_id == 2
    assert not torch.equal(backbone.end_of_text(tokens), tokens.argmax(dim=-1))
    assert (tokens[torch.arange(3), backbone.end_of_text(tokens)] == 2).all()
