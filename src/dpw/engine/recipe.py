"""Training that fits a person's folder: rate and length are found on these images, then all of them are used.

Benchmarks follow the published recipes; nobody has published one for twelve photographs. A few rates are
tried for a few steps on four fifths of the images and judged on the rest; then the best one learns from all
images, in as many steps as they and the time limit allow.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dpw.data.split import Split, join
from dpw.data.task import Task
from dpw.engine.feeding import SplitImages
from dpw.engine.training import Trainer
from dpw.engine.variation import Variation
from dpw.engine.wishes import Wishes
from dpw.methods.base import Method
from dpw.methods.config import TrainingConfig

BATCH = 16
TRIAL_STEPS = 40
LEAST_STEPS, MOST_STEPS, EPOCHS = 200, 400, 10
FEWEST_STEPS = 80  # without which nothing is learned, however little time there is
WARMUP = 0.1  # of all steps
HELD_OUT = 5  # every fifth image of a class judges the trials
FEWEST_JUDGES = 20  # fewer would choose a rate by chance: the method's first one is taken
TRIALS_SHARE = 0.4  # of the time limit that trials may take
VARIATION = Variation(least_area=0.6, mirror=True)


@dataclass(frozen=True)
class Plan:
    """How one task is trained."""

    learning_rate: float
    steps: int
    batch_size: int = BATCH
    tried: tuple[tuple[float, float], ...] = ()  # rates with their loss on held-out images

    def training(self) -> TrainingConfig:
        """The plan as settings of a training."""
        return TrainingConfig(
            optimizer="adam",
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            epochs=None,
            iterations=self.steps,
            schedule="warmup-cosine",
            warmup=max(1, round(WARMUP * self.steps)),
            final_factor=0.0,
            drop_last=False,
            select="last",
        )

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "tried": [list(pair) for pair in self.tried]}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Plan":
        """The plan that was written down."""
        return cls(**{**values, "tried": tuple((rate, loss) for rate, loss in values["tried"])})


def every_image(task: Task) -> Task:
    """The task with its validation images among those it learns from; test images stay apart."""
    if task.val is None or not len(task.val):
        return replace(task, val=None)
    return replace(task, train=join([task.train, task.val]), val=None)


def held_out_rows(labels: Sequence[int]) -> list[int]:
    """Every fifth image of each class, at least one, but never a class's only image."""
    rows: dict[int, list[int]] = {}
    for row, label in enumerate(labels):
        rows.setdefault(label, []).append(row)
    several = [own for own in rows.values() if len(own) > 1]
    return sorted(row for own in several for row in own[min(HELD_OUT, len(own)) - 1 :: HELD_OUT])


def split_for_trials(task: Task) -> tuple[Task, Split | None]:
    """A task of the images that trials learn from, and the images that judge them, if there are any."""
    rows = held_out_rows(task.train.labels)
    if not rows:
        return task, None
    chosen = set(rows)
    rest = [row for row in range(len(task.train)) if row not in chosen]
    return replace(task, train=task.train.select(rest), val=None), task.train.select(rows)


def with_judges(task: Task) -> Task:
    """The task with the images that judge as its validation images, for methods that choose on them."""
    smaller, judges = split_for_trials(task)
    return replace(smaller, val=judges)


def find_plan(trainer: Trainer, method: Method, task: Task, wishes: Wishes) -> Plan:
    """Try the method's rates on some of the images, and size the training by all of them."""
    began = time.monotonic()
    batch = wishes.batch_size or BATCH
    rates = method.folder_rates if wishes.learning_rate is None else (wishes.learning_rate,)
    smaller, judges = split_for_trials(task)
    tried: list[tuple[float, float]] = []
    seconds = 0.0
    if len(rates) > 1 and judges is not None and len(judges) >= FEWEST_JUDGES:
        for rate in rates:
            started = time.monotonic()
            if tried and started - began + seconds * TRIAL_STEPS > TRIALS_SHARE * wishes.time_limit:
                break  # one more would leave too little time for the training itself
            logits, labels = trial(trainer, method, smaller, judges, Plan(rate, TRIAL_STEPS, batch))
            seconds = (time.monotonic() - started) / TRIAL_STEPS
            tried.append((rate, tempered_loss(logits, labels)))
    best = min(tried, key=lambda pair: pair[1])[0] if tried else rates[0]
    if not tried and wishes.steps is None and wishes.epochs is None:
        seconds = _pace(trainer, method, task, Plan(best, 1, batch))
    left = wishes.time_limit - (time.monotonic() - began)
    return Plan(best, wishes.steps or _steps(task, wishes, batch, left, seconds), batch, tuple(tried))


def _pace(trainer: Trainer, method: Method, task: Task, plan: Plan) -> float:
    """Seconds of a step where no trial has told: what three more steps take than one."""
    taken = []
    for steps in (1, 4):
        started = time.monotonic()
        trainer.try_out(method, task, replace(plan, steps=steps).training(), VARIATION, lambda: None)
        taken.append(time.monotonic() - started)
    return max(taken[1] - taken[0], 0.0) / 3


def _steps(task: Task, wishes: Wishes, batch: int, left: float, seconds: float) -> int:
    """Ten epochs between a floor and a ceiling, or the wished epochs, as far as the time allows."""
    per_epoch = math.ceil(len(task.train) / batch)
    if wishes.epochs is not None:
        return wishes.epochs * per_epoch
    wanted = min(max(EPOCHS * per_epoch, LEAST_STEPS), MOST_STEPS)
    return wanted if not seconds else max(FEWEST_STEPS, min(wanted, int(left / seconds)))


def trial(trainer: Trainer, method: Method, task: Task, judges: Split, plan: Plan) -> tuple[Tensor, Tensor]:
    """Logits and labels of the judging images after a short training that leaves no trace."""
    found: list[tuple[Tensor, Tensor]] = []

    def judge() -> None:
        """Keep what the trained method says."""
        images = SplitImages(judges, trainer.cache, trainer.accelerator.device)
        with torch.no_grad():
            found.extend(
                (method.task_logits(pixels).cpu(), labels.cpu()) for pixels, labels in images.batches()
            )

    trainer.try_out(method, task, plan.training(), VARIATION, judge)
    logits, labels = zip(*found, strict=True)
    return torch.cat(logits), torch.cat(labels)


def tempered_loss(logits: Tensor, labels: Tensor) -> float:
    """Cross entropy at the temperature that suits the logits best: how well they rank, not how sure."""
    factors = torch.logspace(-2, 0.5, 26, dtype=torch.float64)
    return min(float(F.cross_entropy(logits.double() * factor, labels)) for factor in factors)
