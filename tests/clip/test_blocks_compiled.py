"""Both towers are translated by `torch.compile` in one piece, with and without gradients."""

import pytest
import torch

from dpw.clip.blocks import run_blocks
from tests.helpers.toy_methods import learn, some_pixels, toy_method, toy_task


# Dynamo looks at the gradient of tensors that have none, and is warned by torch.
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
@pytest.mark.parametrize(("trains", "seen_before"), [(False, 0), (True, 0), (True, 4)])
def test_no_graph_break(trains, seen_before):
    torch._dynamo.reset()  # what other tests compiled counts towards a limit
    method, pixels = toy_method("dpw", adapter_dropout=0.0), some_pixels(4)
    learn(method, toy_task("dtd"))
    if trains:
        method.bank[-1].requires_grad_()
    labels = torch.tensor([0, 1, 0, 1])
    with torch.set_grad_enabled(trains), method.backbone.keeping_first_block(seen_before):
        plain = method(pixels, labels)
        method.backbone._compiled = torch.compile(run_blocks, fullgraph=True, backend="eager")
        compiled = method(pixels, labels)
    torch.testing.assert_close(compiled, plain)
    if trains:
        compiled.backward()
        assert all(one.grad is not None for one in method.trainable().values())
