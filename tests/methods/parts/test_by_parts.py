"""A loss over a few images at a time: the same value and gradients as over the whole batch."""

import pytest
import torch

from dpw.methods.parts import by_parts
from tests.helpers.toy_methods import learn, some_pixels, toy_method, toy_task


@pytest.fixture
def training():
    """A method in the middle of a task, without dropout, whose draws depend on the order of images."""
    method = toy_method("dpw", adapter_dropout=0.0)
    learn(method, toy_task("dtd"))
    method.bank[-1].requires_grad_()
    return method.train()


def gradients(method, pixels, labels):
    """Loss and all gradients of one batch."""
    method.zero_grad()
    loss = 3 * method(pixels, labels)
    loss.backward()
    return loss.detach(), {name: one.grad.clone() for name, one in method.trainable().items()}


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_value_and_gradients_are_those_of_the_whole_batch(training, monkeypatch, smoothing):
    update = {"training": training.config.training.model_copy(update={"label_smoothing": smoothing})}
    training.answers.config = training.config.model_copy(update=update)
    pixels = torch.cat([some_pixels(6), some_pixels(2)[:1]])
    labels = torch.arange(7) % len(training.tasks[-1].classes)
    whole, expected = gradients(training, pixels, labels)
    monkeypatch.setattr(by_parts, "REUSED", 1)
    assert by_parts.goes_by_parts(training.backbone, pixels)
    parts, found = gradients(training, pixels, labels)
    torch.testing.assert_close(parts, whole)
    assert found.keys() == expected.keys()
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, expected[name], atol=1e-5, rtol=1e-4)


def test_parts_are_equal_and_only_as_many_as_needed(training, monkeypatch):
    assert by_parts.part_sizes(training.backbone, 7) == [7]
    shape = training.backbone.image_shape
    monkeypatch.setattr(by_parts, "REUSED", 3 * 16 * shape.width * shape.tokens)
    assert by_parts.part_sizes(training.backbone, 7) == [3, 2, 2]


def test_not_without_gradients_nor_in_reduced_precision(training, monkeypatch):
    monkeypatch.setattr(by_parts, "REUSED", 1)
    pixels = some_pixels(4)
    with torch.no_grad():
        assert not by_parts.goes_by_parts(training.backbone, pixels)
    with torch.autocast(pixels.device.type, dtype=torch.bfloat16):
        assert not by_parts.goes_by_parts(training.backbone, pixels)
