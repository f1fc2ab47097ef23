"""The device of this machine, and Accelerate's view of all devices and processes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

from dpw.errors import InputError

TRIAL = """
import torch
layer = torch.nn.Linear(256, 256)
for rows in (1, 7, 64, 256):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = torch.nn.functional.scaled_dot_product_attention(*[layer(torch.randn(2, rows, 256))] * 3)
    value.float().sum().backward()
a = torch.randn(64, 64).bfloat16()
assert bool(torch.isfinite((a @ a).float()).all())
"""


def default_device() -> torch.device:
    """The accelerator of this machine, or the CPU."""
    found = torch.accelerator.current_accelerator(check_available=True)
    return found if found is not None else torch.empty(0).device


def make_accelerator(device: torch.device | None = None, **options: Any) -> Any:
    """An Accelerator; with several processes every process feeds itself its share of each batch.

    A single process computes on `device`, where its model is; Accelerate would take the best of the machine.
    """
    from accelerate import Accelerator, DistributedDataParallelKwargs

    class Placed(Accelerator):  # type: ignore[misc]  # it has no types
        """Accelerate where somebody else chose the device."""

        @property
        def device(self) -> torch.device:
            """The given one, unless each of several processes has its own."""
            own: torch.device = self.state.device
            return own if device is None or self.num_processes > 1 else device

    if options.get("mixed_precision") == "bf16" and (problem := bfloat16_problem()) is not None:
        raise InputError(f"mixed precision bf16 cannot be used: {problem}; use no or fp16")
    return Placed(
        cpu=several_processors(),
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
        **options,
    )


def fed(accelerator: Any, loader: Any) -> Any:
    """A loader whose batches come to the device as they are.

    Accelerate would split them over the processes itself, but refuses sizes that cannot be divided and fills
    up the last batch of an epoch with images that were in it already.
    """
    from accelerate.data_loader import prepare_data_loader

    return prepare_data_loader(
        loader, accelerator.device, num_processes=1, process_index=0, put_on_device=True
    )


def agreed(accelerator: Any, stop: bool) -> bool:
    """Whether any of the processes that share a training was asked to stop, so that all stop at once."""
    if accelerator.num_processes == 1:
        return stop
    if stop:
        accelerator.set_trigger()
    return bool(accelerator.check_trigger())


@cache
def bfloat16_problem() -> str | None:
    """Why bfloat16 cannot be used on the CPU of this machine, or None; tried in a process of its own.

    Some processors announce instructions (AMX) that the machine around them does not let through, and die of
    the first one. On another device than the CPU nothing needs to be tried.
    """
    if default_device().type != "cpu":
        return None
    try:
        command = [sys.executable, "-c", TRIAL]
        done = subprocess.run(command, capture_output=True, timeout=120, check=False)  # noqa: S603 (our own)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"a trial of it on this machine did not end ({type(error).__name__})"
    if done.returncode == 0:
        return None
    return f"this machine's processor fails in bfloat16 (a trial ended with code {done.returncode})"


@contextmanager
def with_threads(count: int | None) -> Iterator[None]:
    """Compute with a number of threads for a while; it decides the order of sums and so the last digits."""
    before = torch.get_num_threads()
    if count is not None and count != before:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)


def shared_state() -> Any:
    """What Accelerate knows about the processes that share a training."""
    from accelerate import PartialState

    return PartialState(cpu=several_processors())


def several_processors() -> bool:
    """Whether a launcher has started processes that share a training on processors alone.

    Accelerate must be told, or each of them would take itself for the only one.
    """
    return "LOCAL_RANK" in os.environ and default_device().type == "cpu"


def is_main_process() -> bool:
    """Whether this process is the one, of all that share a run, that writes files."""
    return bool(shared_state().is_main_process)


def process_count() -> int:
    """How many processes share a training."""
    return int(shared_state().num_processes)
