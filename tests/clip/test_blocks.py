"""What the towers leave out changes no number: tokens of the last block, rows of an MLP at once."""

import pytest
import torch

from benchmarks import models
from dpw.clip import blocks

BACKBONE = models.backbone("tiny")

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@torch.no_grad()
@pytest.mark.parametrize("name", ["dpw", "dpw-reduced", "diki"])
def test_the_last_image_block_for_cls_alone_equals_the_whole_block(name):
    method, pixels = models.learned(name, BACKBONE, 1, 4), models.photographs("tiny", 3)
    adaptation = method.image_adaptation(0, torch.tensor([0.2, 0.5, 0.9]), torch.tensor([True, False, True]))
    whole = BACKBONE.project_images(BACKBONE.image_tokens(pixels, adaptation)[:, 0])
    torch.testing.assert_close(BACKBONE.encode_images(pixels, adaptation), whole, **CLOSE)


def loss_and_gradients(method):
    """One training step's numbers."""
    loss = method(models.photographs("tiny", 4), torch.arange(4))
    loss.backward()
    gradients = {name: value.grad.clone() for name, value in method.trainable().items()}
    method.zero_grad()
    return loss.detach(), gradients


@pytest.mark.parametrize(("together", "sizes"), [(1, [1, 1, 1, 1]), (3, [3, 1])])
def test_an_mlp_over_few_images_at_a_time_gives_the_same_numbers(monkeypatch, together, sizes):
    method = models.start_training(models.learned("dpw", BACKBONE, 1, 4))
    method.bank.eval()  # no dropout
    expected = loss_and_gradients(method)
    shape, parts = BACKBONE.image_shape, []
    monkeypatch.setattr(blocks, "REUSED", together * shape.tokens * 4 * shape.width * 4)
    at_once = blocks._with_mlp_at_once
    monkeypatch.setattr(
        blocks,
        "_with_mlp_at_once",
        lambda block, index, u, adaptation: (parts.append(u.shape[:2]), at_once(block, index, u, adaptation))[
            1
        ],
    )
    torch.testing.assert_close(loss_and_gradients(method), expected, **CLOSE)
    images = [count for count, tokens in parts if tokens == shape.tokens]
    assert images[: len(sizes)] == sizes
