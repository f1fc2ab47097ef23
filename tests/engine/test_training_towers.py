"""Checkpointed and compiled towers give the same numbers."""

import dataclasses

import pytest
import torch

from benchmarks import models
from dpw import Backbone, ContinualCLIP
from dpw.data.images import Images
from dpw.engine.training import prepare_towers
from dpw.methods import Candidates
from tests.helpers.toy_learner import task

BACKBONE = models.backbone("tiny")

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def loss_and_gradients(method):
    """One training step's numbers."""
    loss = method(models.photographs("tiny", 4), torch.arange(4))
    loss.backward()
    gradients = {name: value.grad.clone() for name, value in method.trainable().items()}
    method.zero_grad()
    return loss.detach(), gradients


@pytest.mark.parametrize("name", ["dpw", "diki"])
def test_checkpointed_towers_give_the_same_gradients(name):
    wanted = {"training": {"gradient_checkpointing": True}}
    method = models.start_training(models.learned(name, BACKBONE, 1, 4, **wanted))
    prepare_towers(method)
    assert BACKBONE.gradient_checkpointing
    torch.manual_seed(0)
    checkpointed = loss_and_gradients(method)
    BACKBONE.gradient_checkpointing = False
    torch.manual_seed(0)
    expected = loss_and_gradients(method)
    torch.testing.assert_close(checkpointed, expected, **CLOSE)


@pytest.mark.parametrize("name", ["dpw", "diki"])
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # from inside torch.compile
def test_compiled_towers_give_the_same_numbers(name):
    backbone = models.backbone("tiny")
    method = models.start_training(models.learned(name, backbone, 1, 4))
    method.bank.eval()  # dropout draws other numbers when compiled
    expected = loss_and_gradients(method)
    backbone.compile(backend="aot_eager")
    torch.testing.assert_close(loss_and_gradients(method), expected, **CLOSE)
    pixels = models.photographs("tiny", 3)
    question = Candidates.among(models.class_group(0, 4))
    with torch.inference_mode():
        compiled = method.eval().logits(Images.of(pixels), question)
        backbone._compiled = None
        torch.testing.assert_close(compiled, method.logits(Images.of(pixels), question), **CLOSE)


@pytest.mark.parametrize(
    ("protocol", "epochs", "images"),
    [("coop", 2, "all"), ("coop", 1, "none"), ("zscl", 2, "none")],
    ids=["again and again", "once", "randomly cropped"],
)
def test_first_blocks_are_kept_of_images_that_come_again(toy, monkeypatch, protocol, epochs, images):
    announced = []
    keeping = Backbone.keeping_first_block

    def told(backbone, count, batches):
        announced.append(count)
        return keeping(backbone, count, batches)

    monkeypatch.setattr(Backbone, "keeping_first_block", told)
    birds = dataclasses.replace(task(toy, "birds"), protocol=protocol)
    model = ContinualCLIP.from_pretrained(toy / "clip", "dpw", settings={"training.epochs": epochs})
    model.learn(birds)
    count = len(birds.train) + (len(birds.val) if birds.val is not None else 0)
    assert announced == [count if images == "all" else 0]
