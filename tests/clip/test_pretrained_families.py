"""Folders of every family are read, only what is needed is fetched, what does not fit gets one sentence."""

import json
import shutil
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from dpw.clip.backbone import Backbone
from dpw.clip.preprocessing import Preprocessing
from dpw.clip.pretrained import fetch
from dpw.errors import InputError
from tests.helpers.families import EVERY, OTHERS, family_backbone, family_tokenizer, save_family


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    """A folder of every family; tests must not change them."""
    root = tmp_path_factory.mktemp("families")
    return {family: save_family(root / family, family) for family in EVERY}


def copied(folder: Path, tmp_path: Path) -> Path:
    """A folder that may be broken."""
    return Path(shutil.copytree(folder, tmp_path / "broken"))


def refused(folder: Path) -> str:
    """The sentence with which a folder is refused."""
    with pytest.raises(InputError) as caught:
        Backbone.from_pretrained(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("family", EVERY)
def test_a_folder_of_every_family_is_the_model_it_was_written_from(folders, family):
    loaded, given = Backbone.from_pretrained(folders[family]), family_backbone(family)
    prompts = ["a cat.", "A Photo of a dog."]
    assert loaded.family == given.family
    assert torch.equal(loaded.tokenize(prompts), given.tokenize(prompts))
    assert loaded.fingerprint() == given.fingerprint()
    assert torch.equal(
        loaded.encode_texts(loaded.tokenize(prompts)), given.encode_texts(given.tokenize(prompts))
    )


def test_siglip_reads_lower_case_of_the_whole_length(folders):
    backbone = Backbone.from_pretrained(folders["siglip2"])
    tokens = backbone.tokenize(["A Cat."])
    assert tokens.shape == (1, backbone.text_shape.tokens)
    assert torch.equal(tokens, backbone.tokenize(["a cat."]))
    with pytest.raises(InputError, match="at most 40"):
        backbone.tokenize(["a photo of a " + "zebra" * 20])


def test_a_silent_siglip_preprocessing_is_siglips_own():
    from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

    own = Preprocessing.from_config({"image_processor_type": "SiglipImageProcessor"})
    assert own.output == (224, 224)
    assert own.crop is None
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (60, 90, 3), dtype=np.uint8))
    expected = SiglipImageProcessorPil()(images=image, return_tensors="pt")["pixel_values"]
    found = torch.from_numpy(own.pixels(image))[None].float() / 255 * 2 - 1
    assert torch.allclose(found, expected, atol=1e-5)


def configured(folder: Path, **values: object) -> None:
    """Change a configuration."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("siglip2", "NaFlex"),
        ("clip_vision_model", "only the image tower"),
        ("bert", r"type 'bert'.*MetaCLIP 2 \('metaclip_2'\)"),
    ],
)
def test_other_families_are_refused(folders, tmp_path, kind, sentence):
    folder = copied(folders["clip"], tmp_path)
    configured(folder, model_type=kind)
    with pytest.raises(InputError, match=sentence):
        Backbone.from_pretrained(folder)


def test_a_folder_of_open_clip_alone_is_named(folders, tmp_path):
    folder = copied(folders["clip"], tmp_path)
    (folder / "config.json").rename(folder / "open_clip_config.json")
    assert "open_clip only" in refused(folder)


@pytest.mark.parametrize("family", EVERY)
@pytest.mark.parametrize("blocks", [1, 3])
def test_a_tower_of_another_depth_than_its_configuration_is_refused(folders, tmp_path, family, blocks):
    folder = copied(folders[family], tmp_path)
    text = json.loads((folder / "config.json").read_text())["text_config"]
    configured(folder, text_config=text | {"num_hidden_layers": blocks})
    sentence = refused(folder)
    assert "text_model" in sentence
    assert ("no place" if blocks == 1 else "missing") in sentence


def test_further_weights_that_no_tower_has_are_ignored(folders, tmp_path):
    folder = copied(folders["clip"], tmp_path)
    weights = load_file(folder / "model.safetensors")
    weights["text_model.embeddings.position_ids"] = torch.arange(77)[None]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    assert Backbone.from_pretrained(folder).fingerprint() == family_backbone("clip").fingerprint()


@pytest.mark.parametrize(
    ("family", "other", "sentence"),
    [
        ("clip", "siglip", "do not end with the end of text"),
        ("metaclip_2", "siglip", "do not end with the end of text"),
        ("chinese_clip", "siglip", "do not begin with a class token"),
        ("altclip", "chinese_clip", "its padding is 0"),
    ],
)
def test_a_tokeniser_of_another_model_is_refused(folders, tmp_path, family, other, sentence):
    folder = copied(folders[family], tmp_path)
    for path in (*folder.glob("token*"), *folder.glob("vocab*"), *folder.glob("merges*")):
        path.unlink()
    if family == "clip":  # a tokeniser without the special tokens
        from tests.helpers.tiny_clip import ALPHABET

        pieces = [*ALPHABET, *(f"{letter}</w>" for letter in ALPHABET), "<|endoftext|>", "<|startoftext|>"]
        (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}))
        (folder / "merges.txt").write_text("#version: 0.2\n")
    else:
        family_tokenizer(other).save_pretrained(folder)
    assert sentence in refused(folder)


def test_a_tokeniser_with_more_tokens_than_the_tower_is_refused(folders, tmp_path):
    folder = copied(folders["siglip2"], tmp_path)
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    content["model"]["vocab"]["c"] = 5000
    path.write_text(json.dumps(content))
    assert "token 5000" in refused(folder)


def test_a_siglip_without_padding_is_refused(folders, tmp_path):
    folder = copied(folders["siglip2"], tmp_path)
    path = folder / "tokenizer_config.json"
    content = json.loads(path.read_text())
    del content["pad_token"]
    path.write_text(json.dumps(content))
    assert "no padding token" in refused(folder)


def test_a_learned_model_is_no_clip(tmp_path):
    (tmp_path / "model.json").write_text("{}")
    assert "is a model of dpw" in refused(tmp_path)


REPOSITORY = [
    ".gitattributes",
    "README.md",
    "config.json",
    "flax_model.msgpack",
    "merges.txt",
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
    "model.safetensors",
    "model.safetensors.index.json",
    "open_clip_config.json",
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.bin",
    "preprocessor_config.json",
    "pytorch_model.bin",
    "sentencepiece.bpe.model",
    "special_tokens_map.json",
    "spiece.model",
    "tf_model.h5",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
]


def test_only_needed_files_are_fetched(folders, monkeypatch):
    asked: list[list[str]] = []

    def download(name, allow_patterns, local_files_only):
        asked.append(list(allow_patterns))
        return str(folders["clip"])

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert fetch("laion/some-clip") == folders["clip"]
    (patterns,) = asked
    taken = [file for file in REPOSITORY if any(fnmatch(file, pattern) for pattern in patterns)]
    left = {".gitattributes", "README.md", "flax_model.msgpack", "tf_model.h5", "pytorch_model.bin"}
    left |= {file for file in REPOSITORY if file.startswith("open_clip")}
    assert set(REPOSITORY) - set(taken) == left


def test_every_other_family_is_refused_by_the_sentence_of_its_class(monkeypatch, folders):
    import transformers

    for family in OTHERS:
        name = family_backbone(family).family.model
        monkeypatch.setattr(transformers, name, None)
        assert f"has no {name}" in refused(folders[family])
