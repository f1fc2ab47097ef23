"""What is run in a process of its own to see its peak memory."""

import resource
from pathlib import Path

import torch
from benchmarks.straightforward import Straightforward

from benchmarks import models

torch.set_num_threads(1)


def idle(shape: str, classes: int) -> None:
    """Only the model and its task."""
    models.learned("dpw", models.backbone(shape), 1, classes)


def step(way: str, shape: str, batch: int, classes: int) -> None:
    """One training step: `ours`, `checkpointed`, `straightforward` or `lean`."""
    backbone = models.backbone(shape)
    backbone.gradient_checkpointing = way == "checkpointed"
    method = models.start_training(models.learned("dpw", backbone, 1, classes))
    pixels, labels = models.photographs(shape, batch), torch.arange(batch) % classes
    if way in ("ours", "checkpointed"):
        method(pixels, labels).backward()
    else:
        Straightforward(method, lean=way == "lean").loss(pixels, labels).backward()


def tower(way: str, shape: str, batch: int) -> None:
    """One pass of the image tower: `plain` or a method's."""
    backbone, pixels = models.backbone(shape), models.photographs(shape, batch)
    adaptation = models.image_adaptation(way, backbone, batch)
    with torch.inference_mode():
        backbone.encode_images(pixels, adaptation)


def peak() -> int:
    """Peak bytes of this process alone; Linux's usual figure counts what its parent had before."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
