"""The device of this machine, and Accelerate's view of all devices and processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


def default_device() -> torch.device:
    """The accelerator of this machine, or the CPU."""
    found = torch.accelerator.current_accelerator(check_available=True)
    return found if found is not None else torch.empty(0).device


def make_accelerator(**options: Any) -> Any:
    """An Accelerator that splits each batch over the processes, so that their number changes no result."""
    from accelerate import Accelerator, DataLoaderConfiguration, DistributedDataParallelKwargs

    return Accelerator(
        dataloader_config=DataLoaderConfiguration(split_batches=True),
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
        **options,
    )


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


def is_main_process() -> bool:
    """Whether this process is the one, of all that share a run, that writes files."""
    from accelerate import PartialState

    return bool(PartialState().is_main_process)
