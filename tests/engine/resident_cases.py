"""Predictions on a pretended accelerator: the processor's answers, and nothing is read before them."""

import gc
import weakref

import pytest
import torch

from dpw.data.pixels import PixelCache
from dpw.engine import resident
from dpw.engine.devices import make_accelerator
from dpw.engine.predictor import Predictor
from dpw.engine.resident import ask_resident
from dpw.methods import Candidates
from dpw.storage.model_folder import load_model, save_model
from tests.engine.devices_pretended_cases import dropout_of, learned
from tests.helpers.pretended import DEVICE, PretendedAccelerator, pretended
from tests.helpers.tiny_clip import tiny_backbone
from tests.helpers.toy_methods import some_pixels, stripes

GRAPHS = ("dpw", "dpw-reduced", "diki", "linear-probe", "tip-adapter", "lada", "zero-shot", "finetune")
FOLDER = {"router_features": "image+patches", "covariance": "classes"}  # what `dpw learn` sets


def ask(method, question=None):
    """What the graph says about some images, among all learned classes unless something else is asked."""
    everything = Candidates.learned([task.group() for task in method.tasks])
    with torch.no_grad():
        return ask_resident(method, some_pixels().to(DEVICE), question or everything)


@pytest.mark.parametrize(
    ("name", "settings"),
    [*((name, {}) for name in (*GRAPHS, "rail", "dpw-ridge", "s-prompts")), ("dpw-ridge", FOLDER)],
)
def test_predictions_are_the_processors(name, settings):
    images, _ = stripes(3, 7, seed=10)

    def answers(accelerator):
        method = learned(name, accelerator, **dropout_of(name), **settings)
        predictor = Predictor(method, PixelCache(method.backbone.preprocessing, folder=None))
        return predictor.predict(images, top=9)

    expected = answers(make_accelerator())
    with pretended():
        found = answers(PretendedAccelerator())
    for one, other in zip(expected, found, strict=True):
        assert (one.label, one.task) == (other.label, other.task)
        assert one.probability == pytest.approx(other.probability, abs=1e-4)
        assert one.confidence == pytest.approx(other.confidence, abs=1e-4)
        assert one.typicality == pytest.approx(other.typicality, abs=1e-4)
        assert dict(one.alternatives) == pytest.approx(dict(other.alternatives), abs=1e-4)


@pytest.mark.parametrize(("name", "reads"), [*((name, 0) for name in (*GRAPHS, "rail")), ("dpw-ridge", 1)])
def test_nothing_is_read_before_the_answer(name, reads):
    with pretended() as device:
        method = learned(name, PretendedAccelerator())
        ask(method)  # the graph is made once
        device.reads.clear()
        found = ask(method)
        assert found["logits"].shape == (len(some_pixels()), 5)
    assert len(device.reads) == reads, device.reads


def test_a_graph_is_made_anew_when_tasks_have_changed():
    with pretended():
        method = learned("dpw", PretendedAccelerator())
        first = ask(method)["logits"].cpu()
        method.forget(0)
        second = ask(method)["logits"].cpu()
    assert (first.shape[1], second.shape[1]) == (5, 3)


def test_a_model_that_was_read_from_files_is_answered_and_freed(tmp_path):
    with pretended():
        method = learned("dpw", PretendedAccelerator())
        expected = ask(method)["logits"].cpu()
        save_model(method, tmp_path)
        read = load_model(tmp_path, lambda kind, config, _: kind(tiny_backbone(), config)).to(DEVICE).eval()
        assert read.bank.stored(), "tasks are read when they are needed"
        torch.testing.assert_close(ask(read)["logits"].cpu(), expected)
        gone = weakref.ref(read)
        del read
        gc.collect()
        assert gone() is None


@pytest.mark.parametrize(
    ("settings", "room"),
    [({"text_weight": "exact"}, resident.ROOM), ({"decision": "batch-vote"}, resident.ROOM), ({}, 0)],
)
def test_without_a_graph_the_method_answers_itself(settings, room, monkeypatch):
    monkeypatch.setattr(resident, "ROOM", room)
    with pretended():
        method = learned("dpw", PretendedAccelerator(), **settings)
        assert ask(method) is None


def test_other_classes_and_a_task_in_training_are_the_methods_own_business():
    with pretended():
        method = learned("dpw", PretendedAccelerator())
        assert ask(method, Candidates.among(method.tasks[0].group())) is None
        assert ask(method) is not None
        method.bank[-1].requires_grad_()
        assert ask(method) is None


def test_a_large_batch_gathers_its_texts_in_parts(monkeypatch):
    with pretended():
        method = learned("dpw", PretendedAccelerator())
        whole = ask(method)["logits"].cpu()
        monkeypatch.setattr(resident, "GATHERED", 1)
        parts = ask(method)["logits"].cpu()
    torch.testing.assert_close(whole, parts)
