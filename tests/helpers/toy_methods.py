"""Toy tasks of striped uint8 images and a training loop of a few lines, for the tests of all methods."""

import hashlib
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from dpw import methods
from dpw.clip.backbone import Backbone
from dpw.data.images import Images
from dpw.data.reference import Pairs, ReferenceData
from dpw.data.split import Split
from dpw.data.task import Task
from dpw.engine.optimization import make_optimizer, parameter_groups
from dpw.methods.base import Method
from dpw.methods.candidates import Candidates
from dpw.methods.parts.steps import steps_of
from tests.helpers.checks import nonempty
from tests.helpers.tiny_clip import tiny_backbone

SIDE = 16
SMALL = {"reference_batch": 6, "synthetic_batch": 6, "random_sentences": 20, "width": 40}
CLASSES = {"aircraft": ("jet", "kite"), "dtd": ("dots", "wool", "mesh"), "mnist": ("one", "two")}


def stripes(classes: int, images: int, seed: int) -> tuple[np.ndarray, list[int]]:
    """Noisy images whose colour tells the class and whose brightness tells the task."""
    draw = np.random.default_rng(seed)
    labels = [index % classes for index in range(images)]
    base = draw.integers(30, 200, size=(classes, 1, 1, 3))
    noise = draw.integers(0, 50, size=(images, SIDE, SIDE, 3))
    return (base[labels] + noise).astype(np.uint8), labels


def toy_split(classes: int, images: int, seed: int) -> Split:
    """Labelled toy images in memory."""
    return Split.from_arrays(*stripes(classes, images, seed), name=f"toy{seed}")


def toy_task(name: str, train: int = 24) -> Task:
    """One of the three toy tasks, by its name."""
    seed = 10 * list(CLASSES).index(name)
    classes = CLASSES[name]
    templates = ("a photo of a {}.", "a {}.")
    splits = [toy_split(len(classes), count, seed) for count in (train, 6, 6)]
    return Task(name, classes, templates, *splits, protocol="zscl")


def toy_reference() -> ReferenceData:
    """Reference images, sentences and images with prompts for methods that want any."""
    prompts = tuple(f"a photo of a {word}." for word in ("cat", "dog", "cat", "sun", "oak", "cat"))
    return ReferenceData(
        images=toy_split(2, 8, seed=91),
        sentences=("a red house.", "two small boats.", "rain."),
        pairs=Pairs(toy_split(2, len(prompts), seed=92), prompts),
    )


def toy_method(name: str, preset: str = "default", backbone: Backbone | None = None, **settings) -> Method:
    """A method over the tiny CLIP, with toy reference data and small batches."""
    known = methods.METHODS[name].config_class.model_fields
    small = {key: value for key, value in SMALL.items() if key in known}
    method = methods.create(name, backbone or tiny_backbone(), preset, small | settings)
    method.reference = toy_reference()
    return method


class ToyImages:
    """A split as training sees it: pixels and labels in fixed order."""

    def __init__(self, split: Split, backbone: Backbone, batch: int = 8) -> None:
        self.split, self.backbone, self.batch = split, backbone, batch

    def __len__(self) -> int:
        return len(self.split)

    def batch_of(self, rows: list[int]) -> tuple[Tensor, Tensor]:
        pixels = [self.backbone.preprocessing.pixels(self.split[row].image) for row in rows]
        return torch.from_numpy(np.stack(pixels)), torch.tensor([self.split.labels[row] for row in rows])

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        for start in range(0, len(self), self.batch):
            yield self.batch_of(list(range(start, min(start + self.batch, len(self)))))


class Trainer:
    """One task in training: begin, some steps, end; can be stopped, stored and continued elsewhere."""

    def __init__(self, method: Method, task: Task) -> None:
        self.method, self.task = method, task
        self.images = ToyImages(task.train, method.backbone)
        self.losses: list[float] = []
        self.step = 0
        method.begin_task(task, self.images)
        method.train()
        self.parameters = method.trainable()
        training = method.config.training
        method.planned_steps = steps_of(training, task.name, len(task.train))
        rate = training.task_learning_rates.get(task.name, training.learning_rate)
        groups = parameter_groups(self.parameters, method.learning_rate_factor)
        self.optimizer = make_optimizer(groups, training, rate) if groups else None

    def run(self, steps: int) -> "Trainer":
        for _ in range(steps):
            self.one_step()
        return self

    def one_step(self) -> None:
        method, k = self.method, self.step
        torch.manual_seed(number("order", method.config.seed, self.task.name, k))
        rows = torch.randperm(len(self.images))[:8].tolist()
        method.step = k
        torch.manual_seed(number(method.config.seed, self.task.name, k))
        loss = method(*self.images.batch_of(rows))
        self.losses.append(loss.item())
        if self.optimizer is not None:
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        method.after_step(k)
        self.step += 1

    def end(self) -> Method:
        self.method.end_epoch()
        self.method.eval()
        self.method.end_task(self.images)
        return self.method

    def store(self) -> dict:
        """All an interrupted training needs, copied."""
        optimizer = None if self.optimizer is None else copied(self.optimizer.state_dict())
        return {
            "step": self.step,
            "weights": self.method.snapshot(),
            "progress": copied(self.method.progress_state()),
            "optimizer": optimizer,
        }

    def resume(self, stored: dict) -> "Trainer":
        """Continue where another training of the same task stopped."""
        self.method.restore(stored["weights"])
        self.method.load_progress_state(stored["progress"])
        if self.optimizer is not None:
            self.optimizer.load_state_dict(stored["optimizer"])
        self.step = stored["step"]
        return self


def learn(method: Method, task: Task, steps: int = 2) -> Method:
    """Learn one task in a few steps."""
    return Trainer(method, task).run(steps).end()


def reload(method: Method, backbone: Backbone | None = None) -> Method:
    """A fresh method of the same kind with the state of another, on the tiny CLIP if no other is given."""
    fresh = methods.METHODS[method.name](backbone or tiny_backbone(), method.config)
    fresh.reference = toy_reference()
    fresh.load_shared_state(copied(method.shared_state()))
    for index, task in enumerate(method.tasks):
        fresh.load_task(task, copied(method.task_state(index)))
    return fresh.eval()


def questions(method: Method) -> list[Candidates]:
    """Task-incremental questions about every learned task and the class-incremental one over all."""
    groups = [task.group() for task in nonempty(method.tasks)]
    return [*map(Candidates.among, groups), Candidates.learned(groups)]


def some_pixels(count: int = 6) -> Tensor:
    """Test images of two toy tasks, mixed."""
    arrays = [stripes(2, count // 2, seed)[0] for seed in (0, 20)]
    return torch.from_numpy(np.concatenate(arrays).transpose(0, 3, 1, 2).copy())


@torch.no_grad()
def answers(method: Method, pixels: Tensor, candidates: Candidates) -> Tensor:
    """Logits of a batch."""
    return method.logits(Images.of(pixels), candidates)


def copied(state: dict) -> dict:
    """A deep copy of nested dictionaries and lists of tensors, sharing no storage."""
    if isinstance(state, dict):
        return {key: copied(value) for key, value in state.items()}
    if isinstance(state, list):
        return [copied(value) for value in state]
    return state.detach().clone() if isinstance(state, Tensor) else state


def number(*parts: object) -> int:
    """A seed from anything that can be printed."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big")
