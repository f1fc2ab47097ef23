"""Every saving changes no number: logits, losses and gradients are those of the straightforward way."""

import pytest
import torch
from benchmarks.straightforward import Straightforward
from torch.nn import functional as F

from benchmarks import models
from dpw.data.images import Images
from dpw.methods import Candidates
from tests.helpers.checks import nonempty

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture(scope="module")
def backbone():
    return models.backbone("tiny")


def official(backbone, name="dpw", **settings):
    """Three learned tasks under the authors' rules."""
    rules = {"decision": "batch-vote", "text_weight": "exact", "strict_filter": True}
    return models.learned(name, backbone, 3, 7, **rules, adapter_dropout=0.0, **settings)


@pytest.mark.parametrize("name", ["dpw", "dpw-reduced"])
@pytest.mark.parametrize("lean", [False, True])
def test_training_loss_logits_and_gradients(backbone, name, lean):
    method = models.start_training(official(backbone, name))
    pixels, labels = models.photographs("tiny", 5), torch.arange(5)
    results = []
    for way in (method, Straightforward(method, lean)):
        logits = way.task_logits(pixels)
        loss = F.cross_entropy(logits, labels)
        loss.backward()
        gradients = {name: value.grad.clone() for name, value in method.trainable().items()}
        method.zero_grad()
        results.append((logits.detach(), loss.detach(), gradients))
    (ours, our_loss, our_gradients), (theirs, their_loss, their_gradients) = results
    torch.testing.assert_close(ours, theirs, **CLOSE)
    torch.testing.assert_close(our_loss, their_loss, **CLOSE)
    assert our_gradients.keys() == their_gradients.keys()
    for key, gradient in nonempty(their_gradients.items()):
        torch.testing.assert_close(our_gradients[key], gradient, **CLOSE, msg=lambda m, k=key: f"{k}: {m}")


@torch.no_grad()
@pytest.mark.parametrize("name", ["dpw", "dpw-reduced"])
@pytest.mark.parametrize("gate", [0.0, 1.0])
def test_predictions_task_and_class_incremental(backbone, name, gate, monkeypatch):
    monkeypatch.setattr("benchmarks.straightforward.GATE", gate)
    method = official(backbone, name, gate=gate)
    plain = Straightforward(method)
    pixels = models.photographs("tiny", 6)
    groups = [models.class_group(task, 7) for task in range(3)]
    tokens = [method.tokens(group) for group in groups]
    ours = method.logits(Images.of(pixels), Candidates.among(groups[1]))
    torch.testing.assert_close(ours, plain.task_incremental(pixels, tokens[1]), **CLOSE)
    ours = method.logits(Images.of(pixels), Candidates.learned(groups))
    torch.testing.assert_close(ours, plain.class_incremental(pixels, tokens), **CLOSE)


def stirred(method):
    """Parameters far from their start, so that totals exceed one and filters drop some prefixes."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for module in method.bank:
            for tower in nonempty(("image", "text")):
                part = module[tower]
                part.bias += 3.0
                for value in (part.weight, part.bias, part.up, part.up_bias, part.values):
                    value += 0.3 * torch.randn(value.shape, generator=generator)
            module["image"].cls_mean += 0.5 * torch.randn(part_shape(module), generator=generator)
            module["image"].cls_var *= torch.rand(part_shape(module), generator=generator)
    return method


def part_shape(module):
    """Blocks, heads and prefixes of the [CLS] statistics."""
    return module["image"].cls_mean.shape


SHAPES = [
    *(("dpw", 1, 1, 2), ("dpw", 5, 3, 1), ("dpw", 12, 1, 4)),
    *(("dpw-reduced", 1, 3, 1), ("dpw-reduced", 5, 1, 4), ("dpw-reduced", 3, 2, 2)),
]


@pytest.mark.parametrize(("name", "prefixes", "batch", "tasks"), SHAPES)
@pytest.mark.parametrize("gate", [0.0, 1.0])
def test_other_shapes_and_batches_of_one(backbone, name, prefixes, batch, tasks, gate, monkeypatch):
    monkeypatch.setattr("benchmarks.straightforward.GATE", gate)
    rules = {"decision": "batch-vote", "text_weight": "exact", "strict_filter": True, "gate": gate}
    settings = rules | {"adapter_dropout": 0.0, "prefix_length": prefixes}
    method = stirred(models.learned(name, backbone, tasks, 3, **settings))
    plain = Straightforward(method)
    pixels = models.photographs("tiny", batch)
    groups = [models.class_group(task, 3) for task in range(tasks)]
    tokens = [method.tokens(group) for group in groups]
    with torch.no_grad():
        ours = method.logits(Images.of(pixels), Candidates.among(groups[-1]))
        torch.testing.assert_close(ours, plain.task_incremental(pixels, tokens[-1]), rtol=1e-4, atol=1e-4)
        ours = method.logits(Images.of(pixels), Candidates.learned(groups))
        torch.testing.assert_close(ours, plain.class_incremental(pixels, tokens), rtol=1e-4, atol=1e-4)
