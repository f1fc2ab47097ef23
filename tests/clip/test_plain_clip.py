"""An ordinary CLIP read without transformers is the very same; an unusual one is left to transformers."""

import json
import shutil

import pytest
import torch

from dpw.clip.backbone import Backbone
from dpw.clip.plain_clip import PlainCLIP, load_weights, plain_config
from dpw.clip.pretrained import EMBEDDED, _load
from tests.helpers.tiny_clip import save_tiny


@pytest.fixture(scope="module", params=["mini", "tiny"])
def folder(request, tmp_path_factory):
    return EMBEDDED["mini"] if request.param == "mini" else save_tiny(tmp_path_factory.mktemp("tiny"))


def test_weights_features_and_fingerprint_are_those_of_transformers(folder):
    own, other = Backbone.from_pretrained(folder), Backbone(*_load(folder, "x"), str(folder))
    assert isinstance(own.clip, PlainCLIP)
    assert not isinstance(other.clip, PlainCLIP)
    ours, theirs = (list(model.clip.named_parameters()) for model in (own, other))
    assert [name for name, _ in ours] == [name for name, _ in theirs]
    assert all(torch.equal(a, b) for (_, a), (_, b) in zip(ours, theirs, strict=True))
    size = own.preprocessing.crop
    pixels = torch.randint(0, 256, (3, 3, *size), generator=torch.Generator().manual_seed(0)).byte()
    prompts = ["a photo of a cat.", "x"]
    with torch.no_grad():
        assert torch.equal(own.encode_images(pixels), other.encode_images(pixels))
        texts = [model.encode_texts(model.tokenize(prompts)) for model in (own, other)]
    assert torch.equal(*texts)
    assert own.fingerprint() == other.fingerprint()


@pytest.mark.parametrize(
    "change",
    [
        {"model_type": "siglip"},
        {"text_config_dict": {"hidden_size": 3}},
        {"quantization_config": {"bits": 4}},
        {"projection_dim": "128"},
        {"vision_config": {"hidden_act": "relu"}},
        {"vision_config": {"num_attention_heads": 7}},
        {"vision_config": {"patch_size": [8, 8]}},
        {"text_config": "small"},
    ],
)
def test_an_unusual_configuration_is_left_to_transformers(tmp_path, change):
    folder = shutil.copytree(EMBEDDED["mini"], tmp_path / "mini")
    content = json.loads((folder / "config.json").read_text())
    for key, value in change.items():
        both = isinstance(value, dict) and isinstance(content.get(key), dict)
        content[key] = content[key] | value if both else value
    (folder / "config.json").write_text(json.dumps(content))
    assert plain_config(folder) is None


def test_weights_that_do_not_fit_are_left_to_transformers(tmp_path):
    folder = shutil.copytree(EMBEDDED["mini"], tmp_path / "mini")
    config = plain_config(folder)
    config.text_config.num_hidden_layers = 3
    assert load_weights(folder, config) is None
    (folder / "model.safetensors").write_bytes(b"nothing")
    assert load_weights(folder, plain_config(folder)) is None
