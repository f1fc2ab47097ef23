"""LwF, LwF-VR and iCaRL: what the teacher says, and what is remembered."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch.nn import functional as F

from dpw.data.pixels import PixelCache
from dpw.data.reference import seeded
from dpw.data.split import open_image
from dpw.learner import ContinualCLIP
from dpw.methods.icarl import herding
from dpw.methods.lwf import random_tokens
from dpw.methods.parts.distillation import distillation
from tests.methods.loop import SMALL, Trainer, learn, reload, toy_method, toy_task
from tests.tiny import tiny_backbone


@given(st.integers(0, 1000), st.floats(0.5, 4))
@settings(max_examples=20, deadline=None)
def test_distillation_is_least_at_the_teacher_where_it_is_its_entropy(seed, temperature):
    teacher, other = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(seed))
    least = distillation(teacher, teacher, temperature)
    share = F.softmax(teacher / temperature, dim=-1)
    entropy = -(share * share.log()).sum(dim=-1).mean()
    torch.testing.assert_close(least, temperature**2 * entropy)
    assert distillation(teacher, other, temperature) >= least


@pytest.mark.parametrize("name", ["lwf", "lwf-vr", "icarl"])
def test_a_student_equal_to_its_teacher_feels_no_pull(name):
    method = learn(toy_method(name), toy_task("aircraft"))
    trainer = Trainer(method, toy_task("dtd"))
    pull = torch.autograd.grad(method.restraint(), list(method.weights().values()), allow_unused=True)
    assert all(gradient is None or gradient.abs().max() < 1e-4 for gradient in pull)
    trainer.run(3)
    pull = torch.autograd.grad(method.restraint(), list(method.weights().values()), allow_unused=True)
    assert max(float(gradient.abs().max()) for gradient in pull if gradient is not None) > 1e-4


@pytest.mark.parametrize("teacher", ["previous", "init"])
def test_the_teacher_is_a_copy_that_stays(teacher):
    method = learn(toy_method("lwf", teacher=teacher), toy_task("aircraft"))
    trainer = Trainer(method, toy_task("dtd"))
    model = method.teacher_model
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


def test_random_sentences_stand_between_start_and_end_of_text():
    backbone = tiny_backbone()
    tokens = random_tokens(backbone, 50, 10, seeded(0))
    first, *_, last = backbone.tokenize(["a"])[0].tolist()
    assert tokens.shape == (50, 12)
    assert set(tokens[:, 0].tolist()) == {first}
    assert backbone.end_of_text(tokens).tolist() == [11] * 50
    assert not {first, last} & set(tokens[:, 1:-1].flatten().tolist())
    assert torch.equal(tokens, random_tokens(backbone, 50, 10, seeded(0)))


# ---------------------------------------------------------------------------------------------------- iCaRL


@given(st.integers(0, 1000), st.integers(1, 12))
@settings(max_examples=25, deadline=None)
def test_herding_takes_what_brings_the_mean_nearest(seed, count):
    features = torch.randn(9, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    features = F.normalize(features, dim=-1)
    chosen = herding(features, count).tolist()
    assert len(set(chosen)) == len(chosen) == min(count, 9)
    for place, picked in enumerate(chosen):
        taken = features[chosen[:place]].sum(dim=0)
        distances = (features.mean(dim=0) - (taken + features) / (place + 1)).norm(dim=1)
        distances[chosen[:place]] = math.inf
        assert distances[picked] <= distances.min() + 1e-12


def test_the_memory_is_shared_evenly_and_old_tasks_keep_their_best():
    method = toy_method("icarl", memory=12)
    learn(method, toy_task("aircraft"))
    first = method.memory[0].clone()
    learn(method, toy_task("dtd"))
    learn(method, toy_task("mnist"))
    assert [len(kept) for kept in method.memory] == [4, 4, 4]
    assert torch.equal(method.memory[0], first[:4])
    assert first.dtype == torch.uint8
    assert [len(kept) for kept in reload(method).memory] == [4, 4, 4]


def test_without_a_memory_there_is_only_the_cross_entropy():
    method = toy_method("icarl")
    trainer = Trainer(method, toy_task("aircraft"))
    assert method.reference_pixels() is None
    assert method.restraint().item() == 0
    trainer.run(1).end()
    Trainer(method, toy_task("dtd"))
    assert len(method.reference_pixels()) == SMALL["reference_batch"]


def test_memory_batches_pass_through_all_tasks_in_turn():
    method = toy_method("icarl", memory=8, reference_batch=6)
    for name in ("aircraft", "dtd"):
        learn(method, toy_task(name))
    Trainer(method, toy_task("mnist"))
    everything = torch.cat(method.memory)
    method.step = 1
    assert torch.equal(method.reference_pixels(), everything[[6, 7, 0, 1, 2, 3]])


def test_only_some_images_are_considered_when_there_are_many():
    method = toy_method("icarl", memory=50, herding_limit=5)
    learn(method, toy_task("aircraft"))
    assert len(method.memory[0]) == 5
