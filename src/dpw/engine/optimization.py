"""Optimisers and learning rates from a method's settings."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dpw.methods.config import TrainingConfig


def parameter_groups(
    parameters: Mapping[str, nn.Parameter], factor: Callable[[str], float]
) -> list[dict[str, Any]]:
    """Parameters that share a factor on the learning rate, which every group carries."""
    groups: dict[float, list[nn.Parameter]] = {}
    for name, tensor in parameters.items():
        groups.setdefault(factor(name), []).append(tensor)
    return [{"params": tensors, "factor": value} for value, tensors in groups.items()]


def make_optimizer(
    groups: Sequence[dict[str, Any]], config: TrainingConfig, rate: float
) -> torch.optim.Optimizer:
    """The optimiser the settings name; on a processor all of a step's arithmetic in one pass over memory."""
    on_processor = all(one.is_cpu for group in groups for one in group["params"])
    common: dict[str, Any] = {"lr": rate, "weight_decay": config.weight_decay, "fused": on_processor or None}
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, momentum=config.momentum, **common)
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, betas=config.betas, **common)


def learning_rate(config: TrainingConfig, base: float, step: int, total: int) -> float:
    """The rate of one step out of `total`, counted from 0.

    `cosine` goes from base to base·final_factor without warm-up (DIKI, DPW); `warmup-cosine` rises linearly
    for `warmup` steps and falls to zero (the ZSCL family).
    """
    if config.schedule == "constant":
        return base
    warmup = config.warmup if config.schedule == "warmup-cosine" else 0
    if step < warmup:
        return base * (step + 1) / warmup
    floor = base * config.final_factor if config.schedule == "cosine" else 0.0
    share = (step - warmup) / max(total - warmup, 1)
    return floor + (base - floor) * 0.5 * (1 + math.cos(math.pi * share))


def optimizer_tensors(optimizer: Any) -> dict[str, Tensor]:
    """All tensors an optimiser keeps, by parameter number and name."""
    state: Mapping[int, Mapping[str, Any]] = optimizer.state_dict()["state"]
    return {
        f"{number}.{name}": value
        for number, values in state.items()
        for name, value in values.items()
        if isinstance(value, Tensor)
    }


def load_optimizer_tensors(optimizer: Any, tensors: Mapping[str, Tensor]) -> None:
    """Give an optimiser its tensors back."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        number, name = key.split(".", 1)
        state.setdefault(int(number), {})[name] = value
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    for one, own in state.items():
        shape = parameters[one].shape
        if any(value.ndim and value.shape != shape for value in own.values()):
            raise ValueError(f"the optimiser's tensors of parameter {one} are not of shape {tuple(shape)}")
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
