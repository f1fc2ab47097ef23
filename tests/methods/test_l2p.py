"""L2P: prompts chosen by their keys."""

import pytest
import torch
from torch.nn import functional as F

from tests.helpers.toy_methods import learn, toy_method, toy_task


def test_every_image_takes_the_prompts_of_its_nearest_keys():
    method = learn(toy_method("l2p", pool_size=6, chosen=2, prompt_length=4), toy_task("aircraft"))
    query = F.normalize(torch.randn(3, 16), dim=-1)
    prefixes, loss = method.prefixes(query, None)
    keys, values = prefixes[0]
    cosine = query @ F.normalize(method.pool["prompt_keys"], dim=-1).T
    order = cosine.argsort(dim=1, descending=True)[:, :2]
    for image in range(3):
        prompts = method.pool["prompts"][order[image]]
        assert torch.equal(keys[image], prompts[:, :2].flatten(0, 1))
        assert torch.equal(values[image], prompts[:, 2:].flatten(0, 1))
    torch.testing.assert_close(loss, (1 - cosine.gather(1, order)).sum(dim=1).mean())


def test_the_key_loss_does_not_grow_with_the_batch():
    """The public code sums over all pairs of a batch."""
    method, query = learn(toy_method("l2p"), toy_task("aircraft")), torch.randn(1, 16)
    losses = [float(method.prefixes(query.expand(count, -1), None)[1]) for count in (1, 5)]
    assert losses[0] == pytest.approx(losses[1])


def test_prompts_act_in_the_chosen_block_only():
    method = learn(toy_method("l2p", block=1), toy_task("aircraft"))
    assert list(method.prefixes(torch.randn(1, 16), None)[0]) == [1]
