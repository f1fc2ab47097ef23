"""CODA-Prompt: prompts as sums of orthogonal components."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from dpw.methods.coda_prompt import orthogonal_rows, unlikeness
from tests.helpers.checks import nonempty
from tests.helpers.toy_methods import Trainer, copied, learn, toy_method, toy_task


@settings(deadline=None, max_examples=25)
@given(old=st.integers(0, 4), new=st.integers(1, 4), seed=st.integers(0, 99))
def test_new_components_are_orthonormal_and_orthogonal_to_earlier_ones(old, new, seed):
    generator = torch.Generator().manual_seed(seed)
    earlier = [torch.randn(old, 8, generator=generator)] if old else []
    rows = orthogonal_rows(new, 8, earlier, generator)
    torch.testing.assert_close(rows @ rows.T, torch.eye(new), rtol=0, atol=1e-5)
    for block in earlier:
        torch.testing.assert_close(rows @ block.T, torch.zeros(new, old), rtol=0, atol=1e-5)


def test_when_the_space_is_used_up_components_are_still_drawn():
    rows = orthogonal_rows(5, 3, [], torch.Generator().manual_seed(0))
    torch.testing.assert_close(rows.norm(dim=1), torch.ones(5))


def test_orthonormal_components_cost_nothing():
    assert unlikeness(torch.eye(6)[None, :4]) == 0
    assert unlikeness(torch.ones(1, 2, 3)) > 1


def test_a_prompt_is_the_sum_of_components_by_attended_similarity():
    method = toy_method("coda-prompt", components=3, prompt_length=4)
    Trainer(method, toy_task("aircraft"))
    query, part = torch.randn(2, 16), method.bank[0]
    prefixes, _ = method.prefixes(query, None)
    for block in (0, 1):
        for image in (0, 1):
            expected = sum(
                F.cosine_similarity(query[image] * part.attention[block, m], part.keys[block, m], dim=0)
                * part.prompts[block, m]
                for m in range(3)
            )
            torch.testing.assert_close(prefixes[block][0][image], expected[:2])
            torch.testing.assert_close(prefixes[block][1][image], expected[2:])


def test_components_of_earlier_tasks_are_frozen_and_used():
    method = learn(toy_method("coda-prompt", components=2), toy_task("aircraft"))
    first = copied(method.task_state(0))
    trainer = Trainer(method, toy_task("dtd"))
    assert not any(name.startswith("bank.0.") for name in nonempty(trainer.parameters))
    trainer.run(2).end()
    assert all(torch.equal(method.task_state(0)[name], tensor) for name, tensor in nonempty(first.items()))
    assert method._all("keys").shape[1] == 4
