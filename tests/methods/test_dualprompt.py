"""DualPrompt: general prompts first, one expert prompt per task behind them."""

import torch
from torch.nn import functional as F

from tests.helpers.checks import nonempty
from tests.helpers.toy_methods import copied, learn, toy_method, toy_task


def test_general_prompts_come_first_and_expert_prompts_behind_them():
    method = learn(toy_method("dualprompt"), toy_task("aircraft"))
    prefixes, _ = method.prefixes(torch.randn(3, 16), None)
    lengths = {block: keys.shape[1] for block, (keys, _) in prefixes.items()}
    assert lengths == {0: 3, 1: 10}  # halves of 6 and 20; the tiny tower has two blocks


def test_the_nearest_key_chooses_the_expert_prompt():
    method = toy_method("dualprompt")
    for name in ("aircraft", "dtd"):
        learn(method, toy_task(name))
    keys = torch.stack([expert.keys[0] for expert in method.bank])
    prefixes, _ = method.prefixes(keys, None)
    known = [method.prefixes(keys, index)[0][1][0] for index in (0, 1)]
    assert torch.equal(prefixes[1][0], torch.cat(known))


def test_training_draws_the_tasks_own_keys_to_its_images():
    method = toy_method("dualprompt")
    for name in ("aircraft", "dtd"):
        learn(method, toy_task(name))
    query = F.normalize(torch.randn(4, 16), dim=-1)
    _, loss = method.prefixes(query, 0)
    cosine = query @ F.normalize(method.bank[0].keys, dim=-1).T
    torch.testing.assert_close(loss, (1 - cosine).sum(dim=1).mean())


def test_expert_prompts_of_earlier_tasks_stay_while_general_ones_learn_on():
    method = learn(toy_method("dualprompt"), toy_task("aircraft"))
    expert, general = copied(method.task_state(0)), method.pool["general"].clone()
    learn(method, toy_task("dtd"))
    assert all(torch.equal(method.task_state(0)[name], tensor) for name, tensor in nonempty(expert.items()))
    assert not torch.equal(method.pool["general"], general)
