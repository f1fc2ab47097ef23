"""A small learner over the toy world's CLIP, and its tasks."""

from pathlib import Path

from dpw import ContinualCLIP, Task

SETTINGS = {"prefix_length": 2, "adapter_rank": 4, "training.epochs": 2, "training.batch_size": 4}


def fresh(toy: Path, **more: object) -> ContinualCLIP:
    """A learner that has learned nothing yet."""
    return ContinualCLIP.from_pretrained(toy / "clip", settings=SETTINGS | more)


def task(toy: Path, name: str) -> Task:
    """One of the toy tasks."""
    return Task.from_folder(toy / "data" / name)
