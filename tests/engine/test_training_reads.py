"""A training step asks for no number between log lines: an accelerator would have to wait for it."""

from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dpw.methods.parts import by_parts
from tests.helpers.toy_methods import learn, some_pixels, toy_method, toy_task

READS = {"aten::_local_scalar_dense", "aten::nonzero", "aten::item", "aten::is_nonzero"}


class CountReads(TorchDispatchMode):
    """Counts what only the host can answer: values, and sizes that depend on values."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function._schema.name in READS:
            self.found.append(function._schema.name)
        return function(*args, **(kwargs or {}))


@contextmanager
def counted():
    with CountReads() as mode:
        yield mode.found


def training(name):
    """A method in the middle of a task."""
    method = toy_method(name)
    learn(method, toy_task("dtd"))
    method.bank[-1].requires_grad_()
    return method.train()


def test_a_step_of_dpw_reads_nothing_once_the_prompts_are_packed():
    method, pixels, labels = training("dpw"), some_pixels(4), torch.tensor([0, 1, 0, 1])
    optimizer = torch.optim.SGD(method.trainable().values(), lr=0.1)
    assert not by_parts.goes_by_parts(method.backbone, pixels)
    method(pixels, labels).backward()
    with counted() as reads:
        method(pixels, labels).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert reads == []
