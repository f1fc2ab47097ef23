"""WiSE-FT: a mixture of weights."""

import pytest
import torch

from tests.helpers.checks import nonempty
from tests.helpers.toy_methods import Trainer, copied, learn, toy_method, toy_task


def weights(method) -> dict[str, torch.Tensor]:
    """The learned weights, copied."""
    return copied(method.weights())


@pytest.mark.parametrize(("keep", "same_as"), [(0.0, "start"), (1.0, "end")])
def test_wise_ft_at_both_ends(keep, same_as):
    method = learn(toy_method("wise-ft", keep=keep), toy_task("aircraft"))
    trainer = Trainer(method, toy_task("dtd"))
    start = weights(method)
    trainer.run(2)
    expected = {"start": start, "end": weights(method)}[same_as]
    trainer.end()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in nonempty(method.weights().items()))


@pytest.mark.parametrize("anchor", ["previous", "zeroshot"])
def test_wise_ft_mixes_four_parts_with_one_part_of_its_anchor(anchor):
    method = learn(toy_method("wise-ft", anchor=anchor), toy_task("aircraft"))
    trainer = Trainer(method, toy_task("dtd"))
    start = weights(method) if anchor == "previous" else dict(method.backbone.clip.named_parameters())
    end = weights(trainer.run(2).method)
    trainer.end()
    assert method.previous is None
    for name, tensor in nonempty(method.weights().items()):
        torch.testing.assert_close(tensor, 0.8 * end[name] + 0.2 * start[name])
