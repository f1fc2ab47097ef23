"""Asking a model as people write it: any form of image, streams, features, what it knows."""

import rlcompleter

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional as F

from dpw import ContinualCLIP, Prediction
from dpw.errors import InputError
from tests.helpers.toy_learner import fresh, task


def test_arrays_tensors_and_bytes_are_answered_like_the_file(saved, picture):
    model, _ = saved
    with Image.open(picture) as image:
        array = np.asarray(image.convert("RGB"))
    wanted = model.predict(picture)
    with picture.open("rb") as file:
        forms = [
            array,
            torch.from_numpy(array.copy()).permute(2, 0, 1),
            picture.read_bytes(),
            file,
            str(picture),
        ]
        answers = model.predict(forms)
    for answer in answers:
        assert (answer.label, answer.task) == (wanted.label, wanted.task)
        assert answer.probability == pytest.approx(wanted.probability, abs=1e-5)
    assert isinstance(model.predict(array), Prediction)
    assert len(model.predict(np.stack([array, array]))) == 2


def test_one_bad_image_never_loses_the_others(saved, picture, tmp_path):
    model, _ = saved
    (tmp_path / "cut.png").write_bytes(picture.read_bytes()[:60])
    with Image.open(picture) as whole:
        whole.save(tmp_path / "cut.bmp")
    (tmp_path / "cut.bmp").write_bytes((tmp_path / "cut.bmp").read_bytes()[:400])
    with Image.open(tmp_path / "cut.bmp") as lazy:
        flat = np.zeros((3, 9, 9), dtype=np.uint8)
        answers = model.predict(iter([picture, lazy, None, flat, tmp_path / "cut.png", b"words", picture]))
    assert [answer.error is None for answer in answers] == [True, *[False] * 5, True]
    assert [answer.image for answer in answers[1:4]] == ["image 1", "image 2", "image 3"]
    assert all(answer.image in answer.error for answer in answers[1:6])


def test_generators_are_taken_batch_by_batch(saved, picture):
    model, _ = saved
    taken = []
    stream = model.predict_stream(taken.append(number) or picture for number in range(1000))
    assert taken == []
    first = next(stream)
    assert len(taken) == 64
    assert first.label == model.predict(picture).label


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda model: model.predict(5), "an object of type int is no image"),
        (lambda model: model.predict(None), "None is no image"),
        (lambda model: model.predict({"a": 1}), "an object of type dict is no image"),
        (lambda model: model.predict([], classes="cat"), r"give a list, as in \['cat'\]"),
        (lambda model: model.predict([], top=0), "top = 0 names no class"),
        (lambda model: model.embed_texts(5), "5 is no text"),
        (lambda model: model.embed_texts(["cat", None]), "None is no text"),
        (lambda model: model.embed_images("absent.png"), "absent.png does not exist"),
        (lambda model: model.embed_texts("cat", task="fish"), "'fish' is not learned"),
    ],
)
def test_mistakes_are_sentences(saved, call, sentence):
    with pytest.raises(InputError, match=sentence):
        call(saved[0])


def test_features_are_those_of_plain_clip(saved, picture):
    model, _ = saved
    backbone = model.method.backbone
    image, texts = (
        model.embed_images(picture),
        model.embed_texts(["a photo of a cat.", "a photo of a zebra."]),
    )
    assert image.shape == (backbone.feature_width,)
    assert texts.shape == (2, backbone.feature_width)
    assert torch.allclose(texts.norm(dim=1), torch.ones(2))
    with torch.no_grad():
        pixels = torch.from_numpy(backbone.preprocessing.pixels(Image.open(picture)))[None]
        plain = F.normalize(backbone.encode_images(pixels), dim=-1)[0]
        cosines = F.normalize(backbone.encode_texts(backbone.tokenize(["a photo of a cat."])), dim=-1) @ plain
    assert torch.allclose(image, plain, atol=1e-6)
    assert torch.allclose(texts[0] @ image, cosines[0], atol=1e-5)
    assert model.embed_images([]).shape == (0, backbone.feature_width)


def test_features_of_a_task_are_those_it_was_trained_with(toy, picture):
    model = fresh(toy)
    model.learn(task(toy, "birds"))
    prompts = [f"a photo of a {name}." for name in model.classes["birds"]]
    image, texts = model.embed_images(picture, task="birds"), model.embed_texts(prompts, task="birds")
    assert not torch.allclose(image, model.embed_images(picture), atol=1e-4)
    pixels = torch.from_numpy(model.method.backbone.preprocessing.pixels(Image.open(picture)))[None]
    with torch.no_grad():
        logits = model.method.task_logits(pixels)[0]
    assert torch.allclose(model.method.backbone.logit_scale * texts @ image, logits, atol=1e-3)


@pytest.mark.parametrize("method", ["s-prompts", "zero-shot"])
def test_features_of_a_task_for_other_methods(toy, picture, method):
    model = ContinualCLIP.from_pretrained(toy / "clip", method, settings={"training.epochs": 1})
    model.learn(task(toy, "metals"))
    if method == "zero-shot":
        for call in (
            lambda: model.embed_images(picture, task="metals"),
            lambda: model.embed_texts("a", task="metals"),
        ):
            with pytest.raises(InputError, match="keeps no features of 'metals' apart"):
                call()
        return
    width = model.method.backbone.feature_width
    assert model.embed_images([picture], task="metals").shape == (1, width)
    assert model.embed_texts("a photo of a cat.", task="metals").shape == (width,)


def test_it_says_what_is_learned(toy, saved):
    assert repr(fresh(toy)).endswith("cpu; nothing learned yet)")
    shown = repr(saved[0])
    assert shown.startswith("ContinualCLIP(dpw-ridge on ")
    assert shown.endswith("learned: birds (3 classes), metals (2 classes))")
    assert saved[0].classes == {"birds": ("crow", "robin", "swan"), "metals": ("gold", "rust")}


def test_tab_completion_finds_what_can_be_asked(saved):
    completer = rlcompleter.Completer({"model": saved[0]})
    found = {completer.complete("model.", number) for number in range(200)} - {None}
    names = {name.removeprefix("model.").rstrip("()") for name in found if not name.startswith("model._")}
    wanted = {
        "predict",
        "predict_stream",
        "embed_images",
        "embed_texts",
        "tasks",
        "classes",
        "learn",
        "forget",
    }
    assert wanted < names
    assert len(names) < 25, "and little else"
