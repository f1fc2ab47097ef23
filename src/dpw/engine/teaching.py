"""Teach a model one folder, and say what it will answer: the way of `dpw learn`."""

import hashlib
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dpw.data.pixels import PixelCache
from dpw.data.prompts import readable
from dpw.data.split import Split
from dpw.data.task import Task
from dpw.engine.evaluation import own_group
from dpw.engine.feeding import SplitImages
from dpw.engine.probe import probe_predictions
from dpw.engine.recipe import VARIATION, Plan, every_image, find_plan, with_judges
from dpw.engine.training import Trainer, training_identity
from dpw.engine.wishes import Wishes, refuse_impossible
from dpw.errors import InputError
from dpw.methods import Candidates, Method, configure
from dpw.methods.trial import try_answering
from dpw.storage.checkpoint import TrainingCheckpoint

BATCH = 256
FEW = 20  # images kept apart, of which fewer show a difference only by chance


@dataclass(frozen=True)
class LearnReport:
    """What was learned and how well, in percent of the images that were kept apart.

    Attributes:
        task: the task's name.
        classes: how many classes it has.
        images: how many images were learned from.
        seconds: how long it took, trials included.
        plan: rate, steps and what was tried; None where the model's own training settings were used.
        held_out: how many images were kept apart; without any there are no accuracies.
        accuracy: among the classes of all learned tasks, as `predict` answers.
        own_accuracy: among the task's own classes.
        zero_shot: plain CLIP among the task's own classes.
        linear_probe: logistic regression on CLIP's features of the same images.
        copies: how many of the images kept apart show exactly what an image shows that was learned from.
    """

    task: str
    classes: int
    images: int
    seconds: float
    plan: Plan | None = None
    held_out: int = 0
    accuracy: float | None = None
    own_accuracy: float | None = None
    zero_shot: float | None = None
    linear_probe: float | None = None
    copies: int = 0

    @property
    def helped(self) -> bool | None:
        """Whether the task is answered better than by plain CLIP; None if nothing was kept apart."""
        if self.own_accuracy is None or self.zero_shot is None:
            return None
        return self.own_accuracy > self.zero_shot

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        plan = None if self.plan is None else self.plan.as_json()
        return {**asdict(self), "plan": plan, "helped": self.helped}

    def sentences(self) -> list[str]:
        """What a person wants to know."""
        found = [f"learned {self.task}: {self.classes} classes, {self.images} images, {self.seconds:.0f} s"]
        if self.plan is not None:
            found[0] += f" (rate {self.plan.learning_rate:g}, {self.plan.steps} steps)"
        if self.accuracy is None or self.own_accuracy is None:
            found.append("no image was kept apart, so nothing says how well: try it on images of your own")
            return found
        found.append(
            f"of {self.held_out} images kept apart {self.accuracy:.1f} % are right among all learned "
            f"classes, {self.own_accuracy:.1f} % among its own (plain CLIP {self.zero_shot:.1f} %, "
            f"linear probe {self.linear_probe:.1f} %)"
        )
        if self.copies:
            found.append(
                f"{self.copies} of them are copies of images it learned from, so this says little about new "
                "ones: remove copies from the folder"
            )
        return found if self.helped else [*found, self._why_no_better()]

    def _why_no_better(self) -> str:
        """What to make of a task that is answered no better than by plain CLIP."""
        if self.own_accuracy == 100:
            return "plain CLIP knew all of them already"
        if self.held_out < FEW:
            return (
                f"{self.held_out} images are too few to say whether learning helped: measure it on others "
                "by 'dpw evaluate'"
            )
        return "learning did not help: look whether the class names say what the images show, or add images"


def teach(
    trainer: Trainer, method: Method, task: Task, wishes: Wishes, folder: str | Path | None = None
) -> LearnReport:
    """Learn one task as suits its images, and measure it on those kept apart.

    `folder` keeps the state of an unfinished training, from which the same call goes on.
    """
    began, checkpoint = time.monotonic(), None
    if method.tasks and method.read_from is not None:
        try_answering(method)  # tensors of a stranger's model that do not fit are known before the training
    if folder is not None:
        checkpoint = learning_checkpoint(method, task, trainer.seed, wishes, Path(folder))
    if not finds_recipe(method):
        trainer.fit(method, task, checkpoint)
        return report(trainer, method, task, None, time.monotonic() - began)
    whole = every_image(task)
    plan = None if checkpoint is None else _stored_plan(checkpoint)
    if plan is None:
        method.to(trainer.accelerator.device)
        plan = find_plan(trainer, method, whole, wishes)
        if checkpoint is not None:
            checkpoint.write_plan(plan.as_json())
    fitted = with_judges(whole) if method.uses_validation else whole
    trainer.fit(method, fitted, checkpoint, plan.training(), VARIATION)
    method.tasks[-1].details["training"] = plan.as_json()
    return report(trainer, method, whole, plan, time.monotonic() - began)


def check_learning(method: Method, task: Task, wishes: Wishes, seed: int, checkpoint_seconds: float) -> None:
    """Refuse what is no task, numbers that no training can have, and wishes that would have no effect."""
    if not isinstance(task, Task):
        raise InputError(f"task is a {type(task).__name__}; give a Task, such as Task.from_folder('birds')")
    refuse_impossible(wishes, seed, checkpoint_seconds)
    given = wishes.given()
    if given and not finds_recipe(method):
        raise InputError(
            f"{sorted(given)[0]} has no effect: this model of method {method.name!r} trains by its own "
            "settings; make a new model without training settings, or set training.* there"
        )


def finds_recipe(method: Method) -> bool:
    """Whether rate and length are found: the method can, and nobody chose training settings by hand."""
    usual = configure(method.name, clip=method.backbone.reference)
    return bool(method.folder_rates) and method.config.training == usual.training


def learning_checkpoint(
    method: Method, task: Task, seed: int, wishes: Wishes, folder: Path
) -> TrainingCheckpoint:
    """The checkpoint of one learning; another task, seed, wish or method is refused there."""
    identity = training_identity(method, task, seed)
    if finds_recipe(method):
        identity["wishes"] = asdict(wishes)
    return TrainingCheckpoint(folder, identity)


def _stored_plan(checkpoint: TrainingCheckpoint) -> Plan | None:
    """The plan of an interrupted learning, so that it goes on as it began."""
    stored = checkpoint.read_plan()
    return None if stored is None else Plan.from_json(stored)


def report(trainer: Trainer, method: Method, task: Task, plan: Plan | None, seconds: float) -> LearnReport:
    """Measure a task that was just learned, beside plain CLIP and a linear probe."""
    base = LearnReport(task.name, len(task.classes), len(task.train), seconds, plan)
    if task.test is None or not len(task.test):
        return base
    labels = torch.tensor(task.test.labels)
    own = Candidates.among(own_group(task))
    everything = Candidates.learned([learned.group() for learned in method.tasks])
    among_all = predicted(trainer, method, task.test, everything)
    plain, probe = _references(trainer, method, task)
    return replace(
        base,
        held_out=len(labels),
        accuracy=_percent_right(named(among_all, everything, task), labels),
        own_accuracy=_percent_right(predicted(trainer, method, task.test, own), labels),
        zero_shot=_percent_right(plain, labels),
        linear_probe=_percent_right(probe, labels),
        copies=count_copies(trainer.cache, task.train, task.test),
    )


def _percent_right(answers: Tensor, labels: Tensor) -> float:
    """Percent of the answers that are the labels."""
    return 100 * float((answers == labels).double().mean())


def count_copies(cache: PixelCache, learned: Split, asked: Split) -> int:
    """How many images of `asked` have, as CLIP sees them, the very pixels of an image of `learned`."""
    known = set(_pixel_digests(cache, learned))
    return sum(digest in known for digest in _pixel_digests(cache, asked))


def _pixel_digests(cache: PixelCache, split: Split) -> Iterator[bytes]:
    """One short text for the pixels of every image."""
    for start in range(0, len(split), BATCH):
        rows = range(start, min(start + BATCH, len(split)))
        yield from (hashlib.sha256(pixels).digest() for pixels in cache.pixels(split, rows))


def predicted(trainer: Trainer, method: Method, split: Split, candidates: Candidates) -> Tensor:
    """Index `(n,)` of the best candidate for every image."""
    method.eval()
    source = SplitImages(split, trainer.cache, trainer.accelerator.device)
    found = []
    with torch.inference_mode():
        for start in range(0, len(split), BATCH):
            rows = range(start, min(start + BATCH, len(split)))
            found.append(method.logits(source.images(rows), candidates).argmax(dim=1).cpu())
    return torch.cat(found)


def named(answers: Tensor, candidates: Candidates, task: Task) -> Tensor:
    """Answers `(n,)` as classes of a task by their names, as a person reads them; -1 for other names."""
    own = {readable(name): label for label, name in enumerate(task.classes)}
    labels = [own.get(readable(name), -1) for _, name in candidates.classes]
    return torch.tensor(labels)[answers]


def _references(trainer: Trainer, method: Method, task: Task) -> tuple[Tensor, Tensor]:
    """What plain CLIP and a linear probe on its features answer for the test images."""
    assert task.test is not None
    with torch.no_grad():
        features, labels = _features(trainer, method, task.train)
        asked, _ = _features(trainer, method, task.test)
        texts = method.frozen_text_features(own_group(task))
    plain = (asked @ texts.T).argmax(dim=1).cpu()
    return plain, probe_predictions(features, labels, asked, len(task.classes))


def _features(trainer: Trainer, method: Method, split: Split) -> tuple[Tensor, Tensor]:
    """Plain CLIP's normalised features and the labels of a split."""
    return method.collect_features(SplitImages(split, trainer.cache, trainer.accelerator.device))
