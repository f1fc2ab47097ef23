"""Learning rates that differ from parameter to parameter."""

import torch
from torch import nn

from dpw.engine.optimization import make_optimizer, parameter_groups
from dpw.methods.config import TrainingConfig


def parameters(*names: str) -> dict[str, nn.Parameter]:
    return {name: nn.Parameter(torch.zeros(2)) for name in names}


def test_without_differences_there_is_one_group():
    (group,) = parameter_groups(parameters("image.a", "text.b"), lambda _: 1.0)
    assert len(group["params"]) == 2
    assert parameter_groups({}, lambda _: 1.0) == []


def test_every_group_carries_its_factor_into_the_optimizer():
    named = parameters("image.a", "text.b", "image.c")
    groups = parameter_groups(named, lambda name: 10.0 if name.startswith("text.") else 1.0)
    optimizer = make_optimizer(groups, TrainingConfig(optimizer="adamw"), 0.1)
    assert [(group["factor"], len(group["params"])) for group in optimizer.param_groups] == [(1, 2), (10, 1)]
