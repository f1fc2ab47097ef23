"""Learning, files and reads on a pretended accelerator, which refuses tensors of the CPU."""

from itertools import pairwise
from typing import ClassVar

import pytest
import torch

from dpw.data.images import Images
from dpw.data.pixels import PixelCache
from dpw.engine.callbacks import TrainingCallback
from dpw.engine.devices import make_accelerator
from dpw.engine.training import Trainer
from dpw.methods import METHODS
from dpw.storage.model_folder import load_model, save_model
from tests.helpers.pretended import DEVICE, OnDevice, PretendedAccelerator, pretended
from tests.helpers.tiny_clip import tiny_backbone
from tests.helpers.toy_methods import questions, some_pixels, toy_method, toy_task

CLOSE = {"rtol": 1e-4, "atol": 1e-5}
FEW = {"training.iterations": 1, "training.batch_size": 8}
WITHOUT_DROPOUT = {"adapter_dropout": 0.0}


def learned(name, accelerator, **settings):
    """A method that has learned two tasks on the accelerator's device."""
    method = toy_method(name, **FEW, **settings)
    trainer = Trainer(PixelCache(method.backbone.preprocessing, folder=None), accelerator)
    for task in ("aircraft", "dtd"):
        trainer.fit(method, toy_task(task))
    return method.eval()


def dropout_of(name):
    """The setting that makes two devices draw the same numbers: none."""
    fields = METHODS[name].config_class.model_fields
    return {key: value for key, value in WITHOUT_DROPOUT.items() if key in fields}


def test_the_device_refuses_tensors_of_the_host_and_notes_what_is_read():
    with pretended() as device:
        there = torch.ones(2, device=DEVICE)
        assert isinstance(there, OnDevice)
        assert there.device == DEVICE
        with pytest.raises(AssertionError, match="of the host beside"):
            there + torch.ones(2)
        with pytest.raises(AssertionError, match="of the host beside"):
            torch.ones(2)[there.long()]
        assert not device.reads
        assert (there * torch.tensor(3.0))[torch.tensor([0])].tolist() == [3.0]
        assert torch.tensor([1.0], device=DEVICE).cpu().tolist() == [1.0]
    assert len(device.reads) == 2


def test_gradients_come_from_the_device():
    with pretended():
        layer = torch.nn.Linear(3, 2).to(DEVICE)
        layer(torch.ones(4, 3, device=DEVICE)).sum().backward()
        assert layer.weight.grad.cpu().tolist() == [[4.0] * 3] * 2


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_method_learns_and_answers_on_the_device_as_on_the_cpu(name):
    settings = dropout_of(name)
    here = learned(name, make_accelerator(), **settings)
    asked = questions(here)
    with torch.inference_mode():
        expected = [here.logits(Images.of(some_pixels()), one) for one in asked]
    with pretended():
        there = learned(name, PretendedAccelerator(), **settings)
        with torch.inference_mode():
            found = [there.logits(Images.of(some_pixels().to(DEVICE)), one).cpu() for one in asked]
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("name", ["dpw", "diki"])
def test_a_model_of_the_device_is_saved_and_loaded_back_to_it(name, tmp_path):
    with pretended():
        first = learned(name, PretendedAccelerator(), **dropout_of(name))
        save_model(first, tmp_path)
        second = load_model(tmp_path, lambda kind, config, _: kind(tiny_backbone(), config)).to(DEVICE)
        question = questions(first)[-1]
        with torch.inference_mode():
            pixels = some_pixels().to(DEVICE)
            answers = [one.eval().logits(Images.of(pixels), question).cpu() for one in (first, second)]
    torch.testing.assert_close(*answers, **CLOSE)


# ------------------------------------------------------------------------------ what the host must wait for


@pytest.mark.parametrize("settings", [{}, {"cls_statistics": "training"}])
def test_a_training_step_reads_nothing(settings):
    with pretended() as device:
        method = learned("dpw", PretendedAccelerator(), **settings)
        method.bank[-1].requires_grad_()
        method.train()
        optimizer = torch.optim.SGD(method.trainable().values(), lr=0.1)
        pixels, labels = some_pixels(4).to(DEVICE), torch.tensor([0, 1, 0, 1], device=DEVICE)
        method(pixels, labels).backward()
        device.reads.clear()
        method(pixels, labels).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert device.reads == []


def test_a_training_reads_nothing_between_the_lines_of_its_log():
    class Reads(TrainingCallback):
        counts: ClassVar[list[int]] = []

        def on_step(self, task, epoch, epochs, step, loss):
            self.counts.append(len(device.reads))

    with pretended() as device:
        method = toy_method("dpw", **FEW | {"training.iterations": 9})
        cache = PixelCache(method.backbone.preprocessing, folder=None)
        Trainer(cache, PretendedAccelerator(), callback=Reads(), log_every=4).fit(method, toy_task("dtd"))
    reads = [after - before for before, after in pairwise(Reads.counts)]
    # Steps 1 to 8, of which 4 and 8 are logged; before 3 and 6 the epochs before are validated.
    assert reads == [0, 0, 1, 1, 0, 1, 0, 1]


@pytest.mark.parametrize(("name", "reads"), [("zero-shot", 0), ("dpw", 1), ("diki", 1)])
def test_a_batch_of_predictions_is_read_for_its_route_alone(name, reads):
    with pretended() as device:
        method, pixels = learned(name, PretendedAccelerator()), some_pixels().to(DEVICE)
        for question in questions(method):
            with torch.inference_mode():
                method.logits(Images.of(pixels), question)  # texts of a class list are asked for once
                device.reads.clear()
                method.logits(Images.of(pixels), question)
            assert len(device.reads) == reads, device.reads
