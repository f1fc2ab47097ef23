"""Tip-Adapter: its formula, the choice of α and β, and tuned keys."""

import torch
from torch.nn import functional as F

from dpw.methods.tip_adapter import SHARES, SHARPNESSES, cache_logits
from tests.helpers.toy_methods import ToyImages, Trainer, learn, toy_method, toy_task


def test_the_formula():
    generator = torch.Generator().manual_seed(0)
    features, keys = (F.normalize(torch.randn(rows, 6, generator=generator), dim=1) for rows in (3, 4))
    values = F.one_hot(torch.tensor([0, 1, 1, 0]), 2).float()
    found = cache_logits(features, keys, values, 2.0, 5.5)
    near = torch.exp(-5.5 * (1 - features[1] @ keys[2]))
    expected = 2 * (near + torch.exp(-5.5 * (1 - features[1] @ keys[1])))
    torch.testing.assert_close(found[1, 1], expected)


def test_without_validation_images_the_published_constants_hold():
    method = learn(toy_method("tip-adapter"), toy_task("dtd"))
    assert method.bank[0]["head"].kept["shares"].tolist() == [1.0, 5.5]


def test_validation_images_choose_from_the_grid():
    method, task = toy_method("tip-adapter"), toy_task("dtd")
    method.validation = ToyImages(task.val, method.backbone)
    learn(method, task)
    share, sharpness = method.bank[0]["head"].kept["shares"].tolist()
    assert any(abs(share - one) < 1e-6 for one in SHARES)
    assert any(abs(sharpness - one) < 1e-6 for one in SHARPNESSES)


def test_only_the_tuned_form_has_something_to_train_and_its_keys_move():
    assert not Trainer(toy_method("tip-adapter"), toy_task("dtd")).parameters
    trainer = Trainer(toy_method("tip-adapter", "tuned"), toy_task("dtd"))
    assert list(trainer.parameters) == ["bank.0.head.keys"]
    before = trainer.method.bank[0]["head"].keys.detach().clone()
    method = trainer.run(3).end()
    assert not torch.equal(method.bank[0]["head"].keys, before)
    assert not method.trainable()
