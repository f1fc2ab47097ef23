"""Keeping what no adaptation reaches changes no number, and saves the first block's beginning."""

import pytest
import torch

from benchmarks import models
from dpw.clip import first_block
from dpw.clip.adaptation import Adaptation
from dpw.clip.first_block import KeptFirstBlock, starts_as_plain
from dpw.methods.parts.by_parts import part_sizes

BACKBONE = models.backbone("tiny")
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture
def computed(monkeypatch):
    """Shapes of the streams whose first block was begun."""
    shapes = []
    begin = first_block.begin_block

    def counted(block, h, tokens):
        shapes.append(tuple(h.shape))
        return begin(block, h, tokens)

    monkeypatch.setattr(first_block, "begin_block", counted)
    return shapes


def loss_and_gradients(method, rows):
    """One training step's numbers on some of eight images."""
    loss = method(models.photographs("tiny", 8)[rows], torch.tensor(rows) % 4)
    loss.backward()
    gradients = {name: value.grad.clone() for name, value in method.trainable().items()}
    method.zero_grad()
    return loss.detach(), gradients


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("name", ["dpw", "dpw-reduced", "diki"])
def test_loss_and_gradients_are_the_same(name, checkpointing, computed):
    method = models.start_training(models.learned(name, BACKBONE, 1, 4))
    method.bank.eval()  # no dropout
    batches = [[0, 1, 2], [2, 5], [1, 0, 2, 5]]
    expected = [loss_and_gradients(method, rows) for rows in batches]
    BACKBONE.gradient_checkpointing = checkpointing
    with BACKBONE.keeping_first_block(8):
        found = [loss_and_gradients(method, rows) for rows in batches]
    BACKBONE.gradient_checkpointing = False
    torch.testing.assert_close(found, expected, **CLOSE)
    tokens = BACKBONE.image_shape.tokens
    assert [shape[:2] for shape in computed if shape[1] == tokens] == [(1, tokens)] * 4  # images 0, 1, 2, 5
    assert len(computed) == 4 + 1  # and the prompts, once


def test_batches_in_a_fixed_order_are_computed_at_once_when_the_first_image_comes(computed):
    method = models.start_training(models.learned("dpw", BACKBONE, 1, 4))
    method.bank.eval()
    expected = loss_and_gradients(method, [5, 0])
    pixels, tokens = models.photographs("tiny", 8), BACKBONE.image_shape.tokens
    asked = []

    def batches():
        for start in (0, 3, 6):
            asked.append(start)
            yield pixels[start : start + 3]

    with BACKBONE.keeping_first_block(8, batches()):
        assert asked == []
        torch.testing.assert_close(loss_and_gradients(method, [5, 0]), expected, **CLOSE)
        loss_and_gradients(method, [1, 2, 3, 4, 6, 7])
    assert asked == [0, 3, 6]
    assert [shape[0] for shape in computed if shape[1] == tokens] == [3, 3, 2]


def test_a_batch_by_parts_finds_its_images_too(monkeypatch, computed):
    method = models.start_training(models.learned("dpw", BACKBONE, 1, 4))
    method.bank.eval()
    expected = loss_and_gradients(method, [0, 1, 2, 3])
    shape = BACKBONE.image_shape
    monkeypatch.setattr("dpw.methods.parts.by_parts.REUSED", 2 * 4 * shape.width * shape.tokens * 4)
    assert part_sizes(BACKBONE, 4) == [2, 2]
    with BACKBONE.keeping_first_block(4):
        loss_and_gradients(method, [0, 1, 2, 3])
        computed.clear()
        torch.testing.assert_close(loss_and_gradients(method, [0, 1, 2, 3]), expected, **CLOSE)
    assert computed == []


def test_what_is_kept_in_inference_serves_a_training():
    method = models.start_training(models.learned("dpw", BACKBONE, 1, 4))
    with BACKBONE.keeping_first_block(4):
        with torch.inference_mode():
            method(models.photographs("tiny", 2), torch.arange(2))
        loss_and_gradients(method, [0, 1])


def test_nothing_is_kept_afterwards():
    with BACKBONE.keeping_first_block(4):
        assert BACKBONE.first_block is not None
    assert BACKBONE.first_block is None


def test_images_are_kept_only_if_all_have_room(monkeypatch):
    monkeypatch.setattr(first_block, "ROOM", 3 * 10 * 4 * 5)
    assert KeptFirstBlock(5, 10).keeps_images
    assert not KeptFirstBlock(6, 10).keeps_images
    assert not KeptFirstBlock(0, 10).keeps_images


def test_no_more_images_are_kept_than_were_announced(computed):
    method = models.start_training(models.learned("dpw", BACKBONE, 1, 4))
    method.bank.eval()
    expected = loss_and_gradients(method, [0, 1, 2])
    with BACKBONE.keeping_first_block(2):
        loss_and_gradients(method, [0, 1, 2])
        computed.clear()
        torch.testing.assert_close(loss_and_gradients(method, [0, 1, 2]), expected, **CLOSE)
    assert len(computed) == 1


def nothing(*_):
    """What a place adds."""


@pytest.mark.parametrize("place", ["tokens", "mask", "linear", "keys_values"])
def test_an_adaptation_that_acts_earlier_is_not_served(place):
    assert not starts_as_plain(type("Early", (Adaptation,), {place: nothing})())


def test_an_adaptation_of_value_or_mlp_is():
    assert starts_as_plain(type("Later", (Adaptation,), {"value": nothing, "mlp": nothing})())
    assert not starts_as_plain(None)
