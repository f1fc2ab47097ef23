"""GIFT: the losses on synthetic pairs, the Fisher weights, and where the pairs come from."""

import csv

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dpw.data import synthesis
from dpw.data.reference import PROMPTS_FILE, ReferenceData, read_pairs
from dpw.errors import InputError
from dpw.methods import gift
from tests.helpers.toy_methods import Trainer, learn, toy_method, toy_task


@given(st.integers(0, 1000), st.floats(-20, 3))
@settings(max_examples=25, deadline=None)
def test_fisher_weights_have_mean_one_however_small_the_gradient(seed, magnitude):
    gradient = torch.randn(6, 5, generator=torch.Generator().manual_seed(seed)) * 10**magnitude
    fisher = gift.relative_fisher(gradient, gradient)
    assert fisher.mean().item() == pytest.approx(1, rel=1e-4)
    assert (fisher >= 0).all()


def test_weights_without_a_gradient_are_hardly_held():
    tensor = torch.ones(3)
    for gradient in (None, torch.zeros(3)):
        assert gift.relative_fisher(gradient, tensor).tolist() == pytest.approx([1e-6] * 3)


def test_equal_prompts_share_their_target():
    expected = [[0.5, 0, 0.5], [0, 1, 0], [0.5, 0, 0.5]]
    assert gift.equal_prompts(["a cat.", "a dog.", "a cat."]).tolist() == expected


def test_a_student_equal_to_its_teacher_feels_no_pull_from_distillation():
    method = learn(toy_method("gift", alignment=0.0), toy_task("aircraft"))
    trainer = Trainer(method, toy_task("dtd"))
    pull = torch.autograd.grad(method.restraint(), list(method.weights().values()))
    assert max(float(gradient.abs().max()) for gradient in pull) < 1e-4
    trainer.run(2)
    pull = torch.autograd.grad(method.restraint(), list(method.weights().values()))
    assert max(float(gradient.abs().max()) for gradient in pull) > 1e-4


def test_the_gradient_is_that_of_the_terms_with_the_fisher_held_fixed():
    method = toy_method("gift")
    Trainer(method, toy_task("aircraft")).run(3)
    plain = toy_method("gift", consolidation=0.0)
    Trainer(plain, toy_task("aircraft"))
    plain.restore(method.snapshot())
    method.step = plain.step = 3
    names, ours = list(method.weights()), list(method.weights().values())
    base = torch.autograd.grad(plain.restraint(), list(plain.weights().values()))
    whole = torch.autograd.grad(method.restraint(), ours)
    start = method.start_weights()
    for name, tensor, gradient, total in zip(names, ours, base, whole, strict=True):
        fisher = gift.relative_fisher(gradient, tensor)
        expected = gradient + 2 * fisher * (tensor - start[name])
        torch.testing.assert_close(total, expected.detach(), rtol=1e-3, atol=1e-4)


def test_both_towers_are_held():
    method = toy_method("gift")
    Trainer(method, toy_task("aircraft")).run(1)
    for tower in ("text_model", "vision_model"):
        tensors = [tensor for name, tensor in method.weights().items() if name.startswith(tower)]
        gradients = torch.autograd.grad(method.restraint(), tensors, allow_unused=True)
        assert any(gradient is not None and bool(gradient.any()) for gradient in gradients)


def test_says_which_pairs_it_needs():
    method = toy_method("gift")
    method.reference = ReferenceData()
    with pytest.raises(InputError, match="'gift' needs images with prompts: give synthetic=FOLDER"):
        learn(method, toy_task("aircraft"))


# --------------------------------------------------------------------------------------- making the pairs


def coloured(prompt: str, seed: int) -> Image.Image:
    """A stand-in for a diffusion model: every third image is black, as after a safety filter."""
    return Image.new("RGB", (16, 16), (0, 0, 0) if seed % 3 == 0 else (seed % 200 + 10, 50, len(prompt)))


def test_painting_writes_a_folder_of_pairs_without_black_images(tmp_path):
    synthesis.paint(tmp_path / "dtd", [f"prompt {n}" for n in range(6)], 1, coloured)
    pairs = read_pairs(tmp_path / "dtd")
    kept = [n for n in range(6) if synthesis.image_seed(n, 1) % 3]
    assert pairs.prompts == tuple(f"prompt {n}" for n in kept)
    assert [path.name for path in tmp_path.iterdir()] == ["dtd"]
    with (tmp_path / "dtd" / PROMPTS_FILE).open() as lines:
        assert [row["file"] for row in csv.DictReader(lines)] == [f"{n:05d}.jpg" for n in kept]


def test_missing_pairs_are_made_from_outside_sentences_and_earlier_classes(tmp_path, monkeypatch):
    monkeypatch.setattr(synthesis, "diffusion_painter", lambda *_: coloured)
    method = toy_method("gift", synthetic=str(tmp_path), diffusion="some/pipeline", synthetic_images=30)
    learn(method, toy_task("aircraft"))
    learn(method, toy_task("dtd"))
    drawn = [set(read_pairs(tmp_path / name).prompts) for name in ("aircraft", "dtd")]
    outside = set(method.reference.sentences)
    assert drawn[0] == outside
    assert drawn[1] == outside | {"a photo of a jet.", "a photo of a kite."}


def test_prompts_are_drawn_by_seed_and_task_alone():
    pool = [f"prompt {n}" for n in range(20)]
    assert synthesis.draw_prompts(pool, 50, 0, 1) == synthesis.draw_prompts(pool, 50, 0, 1)
    assert synthesis.draw_prompts(pool, 50, 0, 1) != synthesis.draw_prompts(pool, 50, 0, 2)
    with pytest.raises(InputError, match="reference_sentences"):
        synthesis.draw_prompts([], 5, 0, 0)


def test_the_published_seeds():
    assert [synthesis.image_seed(7, task) for task in (0, 1)] == [419_900_007, 420_000_007]


def test_says_what_to_install_for_a_pipeline(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "diffusers", None)
    with pytest.raises(InputError, match=r"install dpw\[diffusion\]"):
        synthesis.diffusion_painter("some/pipeline", 50)
