"""The closed-form head of a task: what it keeps, gets right, and does without validation images."""

import torch
from torch.nn import functional as F

from dpw.methods.parts.ridge_head import (
    NO_VALIDATION,
    TEMPERATURES,
    Labelled,
    RidgeHead,
    Seen,
    _mean_shares,
    fit_head,
)

CLASSES, WIDTH, SCALE = 4, 12, 20.0


def labelled(images: int, seed: int) -> Labelled:
    """Images around class centres that text features only half point at."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    texts = F.normalize(centres + 1.5 * torch.roll(centres, 1, dims=0), dim=1)
    labels = torch.arange(images) % CLASSES
    noise = torch.randn(2, images, WIDTH, generator=generator, dtype=torch.float64)
    frozen, adapted = (F.normalize(centres[labels] + 1.2 * one, dim=1) for one in noise)
    return Labelled(Seen((frozen, adapted), SCALE * frozen @ texts.T, SCALE * adapted @ texts.T), labels)


def accuracy(logits, labels):
    return float((logits.argmax(dim=1) == labels).double().mean())


def test_it_beats_the_logits_it_starts_from():
    train, held_out, test = labelled(80, 1), labelled(40, 2), labelled(400, 3)
    head = fit_head(train, held_out)
    assert accuracy(head.logits(test.images), test.labels) > accuracy(test.images.text, test.labels) + 0.1


def test_stored_in_single_precision_it_answers_alike():
    train, test = labelled(40, 1), labelled(40, 3)
    head = fit_head(train, labelled(40, 2))
    stored = RidgeHead.stored(head.tensors())
    torch.testing.assert_close(stored.logits(test.images), head.logits(test.images), rtol=0, atol=1e-3)
    assert {tensor.dtype for tensor in head.tensors().values()} == {torch.float32}


def test_temperatures_are_shares_and_shares_come_from_held_out_images():
    train = labelled(40, 1)
    without, held_out = fit_head(train), fit_head(train, labelled(40, 2))
    for head in (without, held_out):
        torch.testing.assert_close(head.temperatures.sum(), torch.tensor(1.0, dtype=torch.float64))
    mean = float(without.temperatures @ torch.tensor(TEMPERATURES, dtype=torch.float64))
    torch.testing.assert_close(without.shares.tolist(), [NO_VALIDATION[0], NO_VALIDATION[1] * mean])
    assert held_out.shares.tolist() != without.shares.tolist()


def test_held_out_images_can_join_the_regression_but_not_the_choice():
    train, held_out = labelled(40, 1), labelled(20, 2)
    alone, joined = fit_head(train, held_out), fit_head(train, held_out, use_all=True)
    assert len(alone.landmarks) == 40
    assert len(joined.landmarks) == 60
    assert torch.equal(alone.shares, joined.shares)
    assert torch.equal(alone.temperatures, joined.temperatures)


def test_a_single_image_makes_a_finite_head():
    train = labelled(1, 1)
    assert fit_head(train).logits(labelled(5, 2).images).isfinite().all()


def test_shares_are_a_mean_of_what_is_likely_that_large_ones_do_not_decide():
    grid = torch.tensor([[4.0, 0.0], [4.0, 1.0], [64.0, 1.0]], dtype=torch.float64)
    likely = _mean_shares(grid, torch.tensor([0.0, 0.0, 1e6]))
    torch.testing.assert_close(likely.tolist(), [4.0, 0.25])
    torch.testing.assert_close(_mean_shares(grid, torch.tensor([9.0, 9.0, -9.0])), grid[2], rtol=0, atol=1e-3)
