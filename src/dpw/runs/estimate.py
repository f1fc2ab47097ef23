"""How long a run will take and how much memory: a few real steps on random images, on this machine."""

import statistics
import sys
import time
from typing import Any, NamedTuple

import numpy as np
import torch

from dpw.clip.backbone import Backbone
from dpw.data.images import Images
from dpw.data.pixels import PixelCache, pixel_size
from dpw.data.reference import Pairs, ReferenceData
from dpw.data.split import Split
from dpw.data.task import Task
from dpw.engine.callbacks import TrainingCallback
from dpw.engine.devices import make_accelerator
from dpw.engine.evaluation import own_group
from dpw.engine.training import Trainer
from dpw.methods import METHODS, Method, MethodConfig
from dpw.methods.candidates import Candidates

STEPS = 4  # the first is slower and does not count
IMAGES = 32  # of one timed question
ASKED = (2, 20, 1.0)  # questions after the first: at least, at most, and seconds after which it is enough


class Measured(NamedTuple):
    """Seconds of one training step and of one answered image, and the peak of memory in bytes."""

    step: float
    image: float
    memory: int | None


class _Clock(TrainingCallback):
    """Remembers when every step ended."""

    def __init__(self) -> None:
        """Start without a step."""
        self.ends: list[float] = []

    def on_step(self, task: str, epoch: int, epochs: int, step: int, loss: float) -> None:  # noqa: ARG002
        """Note the time."""
        self.ends.append(time.monotonic())

    @property
    def seconds(self) -> float:
        """The usual time from one step to the next; nothing for a method that trains nothing."""
        pairs = zip(self.ends, self.ends[1:], strict=False)
        return statistics.median([after - before for before, after in pairs] or [0.0])


def measure(name: str, config: MethodConfig, backbone: Backbone, classes: int) -> Measured:
    """Train a method for a few steps on random images of some classes and ask it once."""
    accelerator = make_accelerator()
    backbone.to(accelerator.device)
    few: dict[str, Any] = {"iterations": STEPS, "epochs": None, "task_epochs": {}, "select": "last"}
    settings = config.model_copy(update={"training": config.training.model_copy(update=few)})
    method = METHODS[name](backbone, settings)
    count = max(classes, min(settings.training.batch_size, 2 * IMAGES))
    task = _random_task(backbone, classes, count)
    method.reference = _random_reference(task)
    clock = _Clock()
    Trainer(PixelCache(backbone.preprocessing, folder=None), accelerator, callback=clock).fit(method, task)
    return Measured(clock.seconds, _image_seconds(method.eval(), task), peak_memory())


def _random_task(backbone: Backbone, classes: int, count: int) -> Task:
    """Images of noise, as large as the CLIP reads them."""
    height, width = pixel_size(backbone.preprocessing)
    pixels = np.random.default_rng(0).integers(0, 256, (count, height, width, 3), dtype=np.uint8)
    names = tuple(f"kind {number}" for number in range(classes))
    split = Split.from_arrays(pixels, [row % classes for row in range(count)], "noise")
    return Task("noise", names, ("a photo of a {}.",), split)


def _random_reference(task: Task) -> ReferenceData:
    """The same images and prompts for methods that look at data beyond the task."""
    prompts = tuple(task.prompts()[row % len(task.classes)] for row in range(len(task.train)))
    return ReferenceData(task.train, tuple(task.prompts()), Pairs(task.train, prompts))


@torch.inference_mode()
def _image_seconds(method: Method, task: Task) -> float:
    """Seconds for one image, the texts being known after the first question."""
    cache = PixelCache(method.backbone.preprocessing, folder=None)
    rows = [row % len(task.train) for row in range(IMAGES)]
    pixels = torch.from_numpy(cache.pixels(task.train, rows)).to(method.backbone.device)
    question, spent = Candidates.among(own_group(task)), list[float]()
    least, most, enough = ASKED
    while len(spent) <= least or (len(spent) <= most and sum(spent[1:]) < enough):
        began = time.monotonic()
        method.logits(Images.of(pixels), question).cpu()
        spent.append(time.monotonic() - began)
    return statistics.median(spent[1:]) / IMAGES


def peak_memory() -> int | None:
    """The most memory that the accelerator, or else this process, has used so far; None where unknown."""
    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated())
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
