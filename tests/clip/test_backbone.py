"""The towers equal transformers' own, and prompts may be cut."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional as F
from transformers import CLIPModel

from dpw.clip.adaptation import Adaptation
from dpw.clip.backbone import Backbone
from dpw.errors import InputError
from tests.helpers.bfloat16 import needs_bfloat16
from tests.helpers.golden_cases import assert_close, load
from tests.helpers.tiny_clip import golden_backbone, save_tiny, tiny_backbone, tiny_clip

PROMPTS = ["a cat.", "a photo of a very old dog, a type of pet.", "x"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def backbone(folder):
    return Backbone.from_pretrained(folder)


@pytest.fixture(scope="module")
def original(folder):
    return CLIPModel.from_pretrained(folder).eval()


def features_of(output):
    """transformers 5 wraps features in an output object."""
    return getattr(output, "pooler_output", output)


def test_image_features_equal_transformers(backbone, original):
    pixels = torch.randn(3, 3, 16, 16)
    expected = features_of(original.get_image_features(pixel_values=pixels))
    assert torch.allclose(backbone.encode_images(pixels), expected, atol=1e-5)


def test_text_features_equal_transformers(backbone, original):
    tokens = backbone.tokenize(PROMPTS)
    expected = features_of(original.get_text_features(input_ids=tokens))
    assert torch.allclose(backbone.encode_texts(tokens), expected, atol=1e-5)


@pytest.mark.parametrize("activation", ["gelu", "quick_gelu"])
@pytest.mark.parametrize("patch", [4, 16])
def test_any_patch_size_and_activation(activation, patch):
    clip = tiny_clip(patch_size=patch, hidden_act=activation)
    backbone = Backbone(clip, tiny_backbone().preprocessing, None)
    pixels = torch.randn(2, 3, 16, 16)
    expected = features_of(clip.get_image_features(pixel_values=pixels))
    assert torch.allclose(backbone.encode_images(pixels), expected, atol=1e-5)
    assert backbone.image_shape.tokens == (16 // patch) ** 2 + 1


def test_cutting_prompts_to_the_longest_end_of_text_is_exact(backbone, original):
    tokens = backbone.tokenize(PROMPTS)
    padded = F.pad(tokens, (0, 77 - tokens.shape[1]), value=int(tokens[0, -1]))
    expected = features_of(original.get_text_features(input_ids=padded))
    assert torch.allclose(backbone.encode_texts(padded), expected, atol=1e-5)
    assert torch.allclose(backbone.encode_texts(tokens), expected, atol=1e-5)
    one_by_one = torch.cat([backbone.encode_texts(backbone.tokenize([prompt])) for prompt in PROMPTS])
    assert torch.allclose(one_by_one, expected, atol=1e-5)


def test_golden_frozen_features():
    backbone, _ = golden_backbone()
    case, _ = load("j_clip_small_full")
    with torch.no_grad():
        images = F.normalize(backbone.encode_images(case["images_u8"]), dim=-1)
        assert_close(images, case["out_frozen_image_features"], "image features")
        texts = backbone.encode_texts(case["tokens"])
        assert_close(texts, case["out_frozen_text_features_raw"], "text features")


def test_an_adaptation_that_adds_nothing_changes_nothing(backbone):
    pixels, tokens = torch.randn(2, 3, 16, 16), backbone.tokenize(PROMPTS)
    assert torch.equal(backbone.encode_images(pixels, Adaptation()), backbone.encode_images(pixels))
    plain = backbone.encode_texts(tokens)
    assert torch.allclose(backbone.encode_texts(tokens, Adaptation()), plain, atol=1e-5)


def test_uint8_pixels_are_normalised_like_transformers_does(backbone):
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 30, 3), dtype=np.uint8))
    pixels = torch.from_numpy(backbone.preprocessing.pixels(image))[None]
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    processor = CLIPImageProcessorPil(**backbone.preprocessing.to_config())
    expected = processor(images=image, return_tensors="pt")["pixel_values"]
    assert torch.allclose(backbone.normalized(pixels), expected, atol=1e-4)


def test_float64_and_bfloat16_autocast_run(backbone):
    needs_bfloat16()
    pixels = torch.randn(2, 3, 16, 16)
    plain = backbone.encode_images(pixels)
    with torch.autocast(pixels.device.type, dtype=torch.bfloat16):
        assert torch.allclose(backbone.encode_images(pixels).float(), plain, atol=0.1)
    double = tiny_backbone()
    double.clip.double()
    assert double.encode_images(pixels).dtype == torch.float64


def test_gradient_checkpointing_changes_no_gradient(backbone):
    pixels = torch.randn(2, 3, 16, 16, requires_grad=True)
    backbone.encode_images(pixels).sum().backward()
    expected, pixels.grad = pixels.grad, None
    backbone.gradient_checkpointing = True
    backbone.encode_images(pixels).sum().backward()
    backbone.gradient_checkpointing = False
    assert torch.allclose(pixels.grad, expected, atol=1e-6)


def test_a_prompt_that_does_not_fit_names_the_class(backbone):
    with pytest.raises(InputError, match=r"zebra.*at most 77"):
        backbone.tokenize(["a cat.", "a photo of a " + "zebra" * 20])


def test_fingerprint_tells_weights_and_activation_apart(backbone):
    assert backbone.fingerprint() == tiny_backbone().fingerprint()
    assert backbone.fingerprint() != tiny_backbone(seed=1).fingerprint()
    other = Backbone(tiny_clip(hidden_act="gelu"), backbone.preprocessing, None)
    assert backbone.fingerprint() != other.fingerprint()


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        ("text_config", "hidden_act", "gelu"),
        ("vision_config", "num_attention_heads", 1),
        ("text_config", "num_attention_heads", 1),
        ("vision_config", "layer_norm_eps", 1e-3),
        ("text_config", "layer_norm_eps", 1e-3),
    ],
)
def test_the_fingerprint_covers_what_the_weights_do_not_say(part, field, value):
    backbone, other = tiny_backbone(), tiny_backbone()
    assert other.fingerprint() == backbone.fingerprint()
    setattr(getattr(other.clip.config, part), field, value)
    assert other.weights_fingerprint() == backbone.weights_fingerprint()
    assert other.fingerprint() != backbone.fingerprint()


def test_two_ways_to_say_the_end_of_text_are_one_clip():
    backbone, other = tiny_backbone(), tiny_backbone()
    backbone.clip.text_model.eos_token_id = backbone.clip.config.text_config.vocab_size - 1
    other.clip.text_model.eos_token_id = 2
    assert other.fingerprint() == backbone.fingerprint()
