"""LwF and LwF-VR: the teacher and what it looks at."""

import pytest
import torch
from PIL import Image

from dpw.data.decoding import open_image
from dpw.data.pixels import PixelCache
from dpw.data.reference import seeded
from dpw.learner import ContinualCLIP
from dpw.methods.lwf import random_tokens
from tests.helpers.checks import nonempty
from tests.helpers.tiny_clip import tiny_backbone
from tests.helpers.toy_methods import Trainer, learn, toy_method, toy_task


@pytest.mark.parametrize("name", ["lwf", "lwf-vr", "icarl"])
def test_a_student_equal_to_its_teacher_feels_no_pull(name):
    method = learn(toy_method(name), toy_task("aircraft"))
    trainer = Trainer(method, toy_task("dtd"))
    pull = torch.autograd.grad(method.restraint(), list(method.weights().values()), allow_unused=True)
    assert all(gradient is None or gradient.abs().max() < 1e-4 for gradient in nonempty(pull))
    trainer.run(3)
    pull = torch.autograd.grad(method.restraint(), list(method.weights().values()), allow_unused=True)
    assert max(float(gradient.abs().max()) for gradient in pull if gradient is not None) > 1e-4


@pytest.mark.parametrize("teacher", ["previous", "init"])
def test_the_teacher_is_a_copy_that_stays(teacher):
    method = learn(toy_method("lwf", teacher=teacher), toy_task("aircraft"))
    trainer = Trainer(method, toy_task("dtd"))
    model = method.restraints[0].teacher
    model._fingerprint = None
    before = model.fingerprint()
    assert (before == method.backbone.fingerprint()) == (teacher == "init")
    trainer.run(2)
    model._fingerprint = None
    assert model.fingerprint() == before


def test_the_distillation_never_touches_the_text_tower():
    method = learn(toy_method("lwf"), toy_task("aircraft"))
    Trainer(method, toy_task("dtd")).run(1)
    tower = [t for name, t in method.weights().items() if name.startswith("text_")]
    assert set(torch.autograd.grad(method.restraint(), tower, allow_unused=True)) == {None}


def test_random_sentences_stand_between_start_and_end_of_text():
    backbone = tiny_backbone()
    tokens = random_tokens(backbone, 50, 10, seeded(0))
    first, *_, last = backbone.tokenize(["a"])[0].tolist()
    assert tokens.shape == (50, 12)
    assert set(tokens[:, 0].tolist()) == {first}
    assert backbone.end_of_text(tokens).tolist() == [11] * 50
    assert not {first, last} & set(tokens[:, 1:-1].flatten().tolist())
    assert torch.equal(tokens, random_tokens(backbone, 50, 10, seeded(0)))


def test_reference_images_in_a_folder_are_decoded_once_not_in_every_step(tmp_path, monkeypatch):
    for number in range(5):
        Image.new("RGB", (20, 20), (40 * number, 0, 0)).save(tmp_path / f"{number}.png")
    opened = []

    def counted(path):
        opened.append(path.name)
        return open_image(path)

    monkeypatch.setattr("dpw.data.split.open_image", counted)
    settings = {"reference_images": str(tmp_path), "training.iterations": 6, "training.batch_size": 8}
    method = toy_method("lwf", **settings)
    ContinualCLIP(method, PixelCache(method.backbone.preprocessing, tmp_path / "cache")).learn(
        toy_task("dtd")
    )
    assert sorted(opened) == [f"{number}.png" for number in range(5)]
