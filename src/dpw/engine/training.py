"""Fit one task: one loop for all methods, on Accelerate, that can stop after any step and go on."""

import dataclasses
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from dpw.data.digest import task_digest
from dpw.data.pixels import PixelCache
from dpw.data.protocol import get_protocol
from dpw.data.task import Task
from dpw.engine.callbacks import TrainingCallback, never
from dpw.engine.devices import agreed, fed
from dpw.engine.feeding import EpochPixels, Share, SplitImages, epoch_batches, epoch_loader
from dpw.engine.optimization import (
    learning_rate,
    load_optimizer_tensors,
    make_optimizer,
    optimizer_tensors,
    parameter_groups,
)
from dpw.engine.variation import Variation
from dpw.errors import DamagedFileError, Interrupted
from dpw.methods.base import Method
from dpw.methods.config import TrainingConfig, told_apart
from dpw.methods.parts.steps import steps_of
from dpw.methods.tensors import add_prefix, strip_prefix
from dpw.storage.checkpoint import CLIP_SETTINGS, DATA, Position, TrainingCheckpoint
from dpw.storage.files import refuse_without_room
from dpw.storage.logs import MetricsLog

# The weights, two moments and the best epoch, once as they are and once as they are written anew; the model.
STATES_ON_DISK = 9


@dataclass
class Trainer:
    """Everything around a training that does not change from task to task."""

    cache: PixelCache
    accelerator: Any
    seed: int = 0
    workers: int = 0
    checkpoint_seconds: float = 30.0
    log: MetricsLog = field(default_factory=MetricsLog)
    callback: TrainingCallback = field(default_factory=TrainingCallback)
    should_stop: Callable[[], bool] = never
    log_every: int = 10

    def fit(
        self,
        method: Method,
        task: Task,
        checkpoint: TrainingCheckpoint | None = None,
        training: TrainingConfig | None = None,
        variation: Variation | None = None,
    ) -> Position:
        """Learn one task, from its beginning or from where its checkpoint stands.

        `training` replaces the method's own settings for this task; `variation` varies its images.
        """
        train = self._prepared(method, task)
        before = method.remember()
        try:
            method.begin_task(task, train)
            position = _Fit(self, method, task, checkpoint, training, variation).run()
            method.end_task(train)
        except BaseException:
            # A half-learned task must not be mistaken for a learned one.
            method.abandon(before)
            raise
        finally:
            method.validation = None
        self.callback.on_end(task.name)
        return position

    def try_out(
        self,
        method: Method,
        task: Task,
        training: TrainingConfig,
        variation: Variation | None,
        judge: Callable[[], None],
    ) -> None:
        """Train on a task, call `judge`, and go back to where the method was."""
        train = self._prepared(method, task)
        before = method.remember()
        try:
            method.begin_task(task, train)
            quiet = dataclasses.replace(self, callback=TrainingCallback(), log=MetricsLog())
            _Fit(quiet, method, task, None, training, variation).run()
            method.eval()
            judge()
        finally:
            method.abandon(before)

    def _prepared(self, method: Method, task: Task) -> SplitImages:
        """The training images, with the method on its device and all draws seeded."""
        method.to(self.accelerator.device)
        method.pixel_cache = self.cache
        prepare_towers(method)
        self.reseed(task, "begin")
        device = self.accelerator.device
        there = task.val is not None and len(task.val)
        method.validation = SplitImages(task.val, self.cache, device) if there and task.val else None
        return SplitImages(task.train, self.cache, device)

    def reseed(self, task: Task, when: str) -> None:
        """Make what is drawn from now on depend only on the run's seed, the task and the moment."""
        digest = hashlib.sha256(f"{self.seed}-{task.name}-{when}".encode()).digest()
        seed = int.from_bytes(digest[:7], "big")
        if self.accelerator.device.type == "cpu":
            torch.default_generator.manual_seed(seed)  # all devices would take 0.3 ms in every step
        else:
            torch.manual_seed(seed)


class _Fit:
    """The training of one task: the loop and its state."""

    def __init__(
        self,
        trainer: Trainer,
        method: Method,
        task: Task,
        checkpoint: TrainingCheckpoint | None,
        training: TrainingConfig | None,
        variation: Variation | None,
    ) -> None:
        """Size the training; nothing runs yet."""
        self.trainer, self.method, self.task, self.checkpoint = trainer, method, task, checkpoint
        self.config = training or method.config.training
        self.variation = variation
        self.accelerator = trainer.accelerator
        self.position = Position(task.name)
        self.best: dict[str, Tensor] | None = None
        self.per_epoch = len(self.batches(0))
        self.total = method.planned_steps = steps_of(self.config, task.name, len(task.train))
        self.epochs = -(-self.total // self.per_epoch)
        self.rate = self.config.task_learning_rates.get(task.name, self.config.learning_rate)
        self.saved_at = time.monotonic()
        self.loss = 0.0  # the last one that was read

    def run(self) -> Position:
        """All remaining epochs, then the best of them."""
        groups = parameter_groups(self.method.trainable(), self.method.learning_rate_factor)
        if not groups:
            return self.position
        if self.checkpoint is not None:
            needed = sum(p.numel() * p.element_size() for group in groups for p in group["params"])
            refuse_without_room(self.checkpoint.folder, STATES_ON_DISK * needed)
        optimizer = make_optimizer(groups, self.config, self.rate)
        self.model, self.optimizer = self.accelerator.prepare(self.method, optimizer)
        self.resume()
        self.trainer.callback.on_begin(self.task.name, self.total, self.position.step)
        splits = self.coming_again()
        batches = (pixels for split in splits for pixels, _ in split.batches())
        with self.method.backbone.keeping_first_block(sum(map(len, splits)), batches):
            while self.position.step < self.total:
                self.epoch()
        if self.best is not None:
            self.method.restore(self.best)
        self.accelerator.free_memory()
        return self.position

    def coming_again(self) -> list[SplitImages]:
        """The images that come again and again as they are, in main memory and full precision."""
        varied = self.variation is not None or get_protocol(self.task.protocol).random_crop
        plain = self.accelerator.device.type == "cpu" and self.accelerator.mixed_precision == "no"
        if varied or not plain or self.total <= self.per_epoch:
            return []
        splits, device = (self.task.train, self.task.val), self.accelerator.device
        return [SplitImages(split, self.trainer.cache, device) for split in splits if split is not None]

    def batches(self, epoch: int) -> list[list[int]]:
        """The batches of one epoch."""
        key = f"{self.trainer.seed}-{self.task.name}-{epoch}"
        return epoch_batches(len(self.task.train), self.config.batch_size, self.config.drop_last, key)

    def epoch(self) -> None:
        """The rest of the current epoch and its validation."""
        epoch, trainer = self.position.epoch, self.trainer
        pixels = EpochPixels(self.task, trainer.cache, trainer.seed, epoch, self.variation)
        remaining = self.batches(epoch)[self.position.batch :]
        remaining = remaining[: self.total - self.position.step]
        shares = [self.share(batch) for batch in remaining]
        own = [batch[share.start : share.stop] for batch, share in zip(remaining, shares, strict=True)]
        loader = fed(self.accelerator, epoch_loader(pixels, own, trainer.workers))
        self.method.train()
        for share, (images, labels) in zip(shares, loader, strict=True):
            self.step(images, labels, share)
            if self.position.batch < self.per_epoch and self.position.step < self.total:
                self.save_if_due()
        self.method.end_epoch()
        self.validate()
        self.position.epoch, self.position.batch = epoch + 1, 0
        self.save_if_due()

    def share(self, batch: list[int]) -> Share:
        """What this process computes of a batch."""
        return Share.of(len(batch), self.accelerator.process_index, self.accelerator.num_processes)

    def step(self, images: Tensor, labels: Tensor, share: Share) -> None:
        """One batch: loss, gradient, and an optimiser step whenever enough batches are gathered."""
        position = self.position
        rate = learning_rate(self.config, self.rate, position.step, self.total)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        self.method.step = position.step
        self.method.share = share[:3] if self.accelerator.num_processes > 1 else None
        self.trainer.reseed(self.task, f"step-{position.step}")
        with self.accelerator.accumulate(self.model):
            loss = self.model(images, labels)
            loss = loss if share.weight == 1 else loss * share.weight
            self.accelerator.backward(loss)
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.method.after_step(position.step)
        self.report(loss.detach(), rate)
        position.step, position.batch = position.step + 1, position.batch + 1

    def report(self, loss: Tensor, rate: float) -> None:
        """Tell the log, the callback and the trackers."""
        step, trainer = self.position.step, self.trainer
        logged = step % trainer.log_every == 0 or step == self.total - 1
        if logged and self.accelerator.num_processes > 1:
            loss = self.accelerator.reduce(loss, reduction="mean")
        if logged or loss.is_cpu:
            self.loss = float(loss)  # waits for an accelerator, so between log lines nobody asks it
        value = self.loss
        trainer.callback.on_step(self.task.name, self.position.epoch, self.epochs, step + 1, value)
        if logged:
            trainer.log.write(event="train", task=self.task.name, step=step, loss=value, learning_rate=rate)
            self.accelerator.log({f"{self.task.name}/loss": value, f"{self.task.name}/rate": rate}, step=step)

    def validate(self) -> None:
        """Accuracy on the validation images with the task known; the first best epoch is kept."""
        val = self.task.val
        if self.config.select != "best-validation" or val is None or not len(val):
            return
        self.method.eval()
        accuracy = known_task_accuracy(
            self.method, SplitImages(val, self.trainer.cache, self.accelerator.device)
        )
        position = self.position
        position.validation.append(accuracy)
        if position.best_accuracy is None or accuracy > position.best_accuracy:
            position.best_accuracy, position.best_epoch = accuracy, position.epoch
            self.best = self.method.snapshot()
        self.trainer.callback.on_validation(self.task.name, position.epoch, accuracy)
        self.trainer.log.write(
            event="validation", task=self.task.name, epoch=position.epoch, accuracy=accuracy
        )

    # ------------------------------------------------------------------------------------ stop and go on

    def save_if_due(self) -> None:
        """Write the state now and then, and at once when asked to stop."""
        stop = agreed(self.accelerator, self.trainer.should_stop())
        now = time.monotonic()
        due = now - self.saved_at >= self.trainer.checkpoint_seconds
        if not self.accelerator.sync_gradients:
            return  # gradients of gathered batches are not part of the state
        if self.checkpoint is not None and (stop or due) and self.accelerator.is_main_process:
            log = self.trainer.log
            self.checkpoint.save(self.position, self.tensors(), self.best, log.position(), log.digest())
            self.saved_at = time.monotonic()
        if stop:
            raise Interrupted(f"stopped at step {self.position.step} of {self.total} of {self.task.name}")

    def tensors(self) -> dict[str, Tensor]:
        """Everything that training has changed so far."""
        return {
            **add_prefix("method/", self.method.snapshot()),
            **add_prefix("progress/", self.method.progress_state()),
            **add_prefix("optimizer/", optimizer_tensors(self.optimizer)),
        }

    def resume(self) -> None:
        """Go back to the stored state, if there is one."""
        stored = None if self.checkpoint is None else self.checkpoint.load()
        if stored is None:
            return
        assert self.checkpoint is not None
        self.position, tensors, self.best, log_bytes, log_sha256 = stored
        try:
            self.refuse_impossible_position()
            self.method.restore(self.best or {})  # whether it fits is known now, not at the end
            self.method.restore(strip_prefix("method/", tensors))
            self.method.load_progress_state(strip_prefix("progress/", tensors))
            load_optimizer_tensors(self.optimizer, strip_prefix("optimizer/", tensors))
        except (LookupError, RuntimeError, TypeError, ValueError, AttributeError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise DamagedFileError(
                f"{self.checkpoint.path} does not fit the training that it belongs to ({reason}): restore it "
                "from a copy, or begin anew"
            ) from error
        self.trainer.log.rewind(log_bytes, log_sha256)

    def refuse_impossible_position(self) -> None:
        """Refuse a position that no step of this training leads to."""
        at = self.position
        within = at.step == self.total or at.epoch * self.per_epoch + at.batch == at.step
        if at.step > self.total or not within or at.task != self.task.name:
            raise ValueError(f"step {at.step} of {self.total}, batch {at.batch} of epoch {at.epoch}")


def training_identity(method: Method, task: Task, seed: int) -> dict[str, Any]:
    """What an interrupted training must still be to go on: method, settings, CLIP, task and images."""
    return {
        "method": method.name,
        "config": told_apart(method.config),
        "backbone": method.backbone.weights_fingerprint(),
        CLIP_SETTINGS: method.backbone.settings(),
        "learned": method.task_names,
        "seed": seed,
        **{f"task {key}": value for key, value in task.describe().items()},
        "class names": list(task.classes),
        DATA: task_digest(task),
    }


def prepare_towers(method: Method) -> None:
    """Checkpoint and compile the towers as the settings say; methods may have several backbones."""
    config = method.config.training
    for module in method.modules():
        if isinstance(module, type(method.backbone)):
            module.gradient_checkpointing = config.gradient_checkpointing
            if config.compile_towers:
                module.compile()


def known_task_accuracy(method: Method, images: SplitImages) -> float:
    """Share of images whose class is found among those of the task being learned; read once for all."""
    with torch.no_grad():
        right = [
            (method.task_logits(pixels).argmax(dim=1) == labels).sum() for pixels, labels in images.batches()
        ]
        return int(torch.stack(right).sum()) / len(images)
