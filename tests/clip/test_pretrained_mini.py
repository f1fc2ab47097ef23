"""The embedded model: complete, small, readable by transformers, and good enough for the `mini` benchmark."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import CLIPImageProcessor, CLIPModel, CLIPTokenizer

import dpw
from dpw.benchmarks.mini import tasks
from dpw.clip.preprocessing import Preprocessing
from tests.helpers.checks import nonempty

pytest.importorskip("sklearn")

FOLDER = Path(dpw.__file__).parent / "clip" / "mini"


@pytest.fixture(scope="module")
def model() -> CLIPModel:
    return CLIPModel.from_pretrained(FOLDER, local_files_only=True).eval()


@pytest.fixture(scope="module")
def tokenizer() -> CLIPTokenizer:
    return CLIPTokenizer.from_pretrained(FOLDER, local_files_only=True)


def text_features(model, tokenizer, texts):
    tokens = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        return torch.nn.functional.normalize(
            model.text_projection(model.text_model(**tokens).pooler_output), dim=-1
        )


def image_features(model, pixels):
    mean, std = (torch.tensor(v)[:, None, None] for v in (Preprocessing().mean, Preprocessing().std))
    with torch.no_grad():
        pooled = model.vision_model((torch.from_numpy(pixels).float() / 255 - mean) / std).pooler_output
        return torch.nn.functional.normalize(model.visual_projection(pooled), dim=-1)


def test_the_folder_is_at_most_eight_megabytes():
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 8_000_000


def test_the_model_has_the_promised_shape(model):
    vision = model.config.vision_config
    assert (vision.image_size // vision.patch_size) ** 2 == 36
    assert 1_000_000 <= sum(parameter.numel() for parameter in model.parameters()) <= 4_000_000
    assert all(parameter.dtype == torch.float32 for parameter in nonempty(model.parameters()))
    assert model.logit_scale.exp() <= 100.01


def test_end_of_text_is_the_largest_id_and_the_padding(model, tokenizer):
    assert tokenizer.eos_token_id == tokenizer.pad_token_id == len(tokenizer) - 1
    assert model.config.text_config.eos_token_id == tokenizer.eos_token_id
    assert model.config.text_config.vocab_size == len(tokenizer)


def test_every_word_of_the_class_names_is_known(tokenizer):
    for task in nonempty(tasks()):
        for prompt in nonempty(task.prompts()):
            assert len(tokenizer.tokenize(prompt)) == len(prompt.replace(".", " .").split()), prompt


def test_unknown_words_are_spelled_not_lost(tokenizer):
    assert (
        tokenizer.decode(tokenizer("unfathomable")["input_ids"], skip_special_tokens=True).strip()
        == "unfathomable"
    )


def test_a_text_means_the_same_with_and_without_padding(model, tokenizer):
    short = "a red star."
    alone = text_features(model, tokenizer, [short])
    beside = text_features(model, tokenizer, [short, "a photo of a very large green house at night."])
    torch.testing.assert_close(alone[0], beside[0], atol=1e-5, rtol=0)


def test_transformers_preprocesses_as_the_package_does():
    image = tasks()[3].val[0].image.resize((80, 61))
    theirs = CLIPImageProcessor.from_pretrained(FOLDER, use_fast=False)(image, return_tensors="np")[
        "pixel_values"
    ][0]
    ours = Preprocessing.from_folder(FOLDER)
    pixels = ours.pixels(image).astype(np.float64) / 255
    normalised = (pixels - np.array(ours.mean)[:, None, None]) / np.array(ours.std)[:, None, None]
    np.testing.assert_allclose(theirs, normalised, atol=2e-2)


def test_the_training_log_and_the_card_are_there():
    lines = [json.loads(line) for line in (FOLDER / "training_log.jsonl").read_text().splitlines()]
    assert lines[-1]["step"] == 2000
    assert lines[-1]["loss"] < lines[0]["loss"] / 2
    assert "zero-shot" in (FOLDER / "README.md").read_text()


def test_zero_shot_goals(model, tokenizer):
    """On average between 35 % and 75 %, and at least twice chance on every task."""
    accuracy = {}
    for task in nonempty(tasks()):
        pixels = np.stack([np.asarray(sample.image).transpose(2, 0, 1) for sample in task.test])
        guesses = (image_features(model, pixels) @ text_features(model, tokenizer, task.prompts()).T).argmax(
            1
        )
        accuracy[task.name] = float((guesses.numpy() == np.array(task.test.labels)).mean())
        assert accuracy[task.name] >= 2 / len(task.classes), accuracy
    assert 0.35 <= sum(accuracy.values()) / len(accuracy) <= 0.75, accuracy
