"""Telling the task by autoencoders: the task whose autoencoder repeats an image's early features best.

The public code of MoE-Adapters looks at images with an ImageNet AlexNet; here the autoencoders repeat early
features of the frozen CLIP itself, so that no second network is needed.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from dpw.clip.backbone import Backbone
from dpw.data.pixels import PixelCache
from dpw.data.reference import pixels_of, seeded
from dpw.data.split import Split
from dpw.methods.base import TaskImages
from dpw.methods.config import RoutedConfig
from dpw.methods.routing.autoencoder import Autoencoder, fit_autoencoder
from dpw.methods.routing.route import Route, route_by_score

REFERENCE = "reference"
BATCH = 64
HOLD_OUT = 5  # every fifth image only sets the threshold


class AutoencoderConfig(RoutedConfig):
    """Constants of the task router.

    `reject_threshold` is 0.0655 (few-shot 0.0585 or 0.06) in the public code, for AlexNet's features; without
    it each task rejects what it repeats worse than `reject_quantile` of its own images, some of which are
    kept apart for this; where a batch votes, worse than that share of its classes' means would be.
    """

    router_blocks: int = Field(3, ge=1)
    """Blocks of the image tower below the router's features."""
    router_grid: int = Field(7, ge=1)
    """Side of the grid that patch tokens are averaged on."""
    router_hidden: int = Field(100, ge=1)
    """Width inside an autoencoder."""
    router_iterations: int = Field(300, ge=1)
    """Steps of training a task's autoencoder."""
    router_rate: float = Field(0.01, gt=0)
    """Learning rate of an autoencoder."""
    router_weight_decay: float = Field(1e-4, ge=0)
    """Weight decay of an autoencoder."""
    router_images: int = Field(2048, ge=1)
    """Images an autoencoder is trained on, at most."""
    reject_quantile: float = Field(0.99, gt=0, le=1)
    """Share of a task's own images that it must accept."""
    reject_threshold: float | None = Field(None, gt=0)
    """Error above which every task rejects an image, instead of `reject_quantile`."""
    reference_images: str | None = None
    """Images of no task, for an autoencoder of their own: a folder or a saved dataset."""
    reference_iterations: int = Field(1000, ge=1)
    """Steps of training the autoencoder of images of no task."""


class TaskAutoencoder(Autoencoder):
    """The autoencoder of one task with the lowest score, minus the error, at which the task accepts.

    The buffer is called `least` because saved models name it so.
    """

    least: Tensor

    def __init__(self, width: int, hidden: int, generator: torch.Generator | None = None) -> None:
        """Accept everything until a threshold is set."""
        super().__init__(width, hidden, generator)
        self.register_buffer("least", torch.tensor(-torch.inf))

    @property
    def threshold(self) -> Tensor:
        """The lowest accepted score."""
        return self.least


class AutoencoderRouter:
    """Chooses among the autoencoders of all tasks, and one of reference images for "none of them"."""

    def __init__(
        self,
        config: AutoencoderConfig,
        tasks: Callable[[], Sequence[TaskAutoencoder]],
        reject: Callable[[], Autoencoder | None],
    ) -> None:
        """`tasks()` are the tasks' autoencoders, `reject()` that of the reference images, if any."""
        self.config, self.tasks, self.reject = config, tasks, reject

    # -------------------------------------------------------------------------------------------- learning

    def fit(self, backbone: Backbone, images: TaskImages, task: str) -> TaskAutoencoder:
        """The autoencoder of a task from its training images."""
        features, labels = self._task_features(backbone, images, task)
        # An image that was trained on is repeated better than a new one, so some are kept apart.
        held_out = torch.arange(len(features)) % HOLD_OUT == HOLD_OUT - 1
        if self.config.reject_threshold is not None or int(held_out.sum()) < 2:
            held_out = torch.zeros_like(held_out)
        model = self._autoencoder(features[~held_out], self.config.router_iterations, task)
        with torch.no_grad():
            chosen = held_out if bool(held_out.any()) else torch.ones_like(held_out)
            error = model.error(features[chosen])
        threshold = -self._worst(error, labels[chosen])
        return stored_autoencoder({**model.state_dict(), "least": threshold}, TaskAutoencoder)

    def _worst(self, error: Tensor, labels: Tensor) -> Tensor:
        """The largest error that a task accepts, from errors `(n,)` of its own images, as it is compared.

        For single images it is a quantile of these. The mean of a batch varies far less, but test images
        often come class by class: it stays below the mean of the classes' means plus a few deviations.
        """
        quantile = self.config.reject_quantile
        if self.config.decision == "per-image" or quantile == 1:
            return error.quantile(quantile)
        means = torch.stack([error[labels == label].mean() for label in sorted(set(labels.tolist()))])
        if len(means) == 1:
            return error.quantile(quantile)
        return means.mean() + statistics.NormalDist().inv_cdf(quantile) * means.std()

    def fit_reference(self, backbone: Backbone, images: Split, cache: PixelCache) -> Autoencoder:
        """What images of no task look like."""
        rows = self._some_rows(len(images), REFERENCE)
        parts = [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]
        batches = (pixels_of(images, part, cache, backbone.device) for part in parts)
        found = [self.early_features(backbone, pixels) for pixels in batches]
        return self._autoencoder(torch.cat(found), self.config.reference_iterations, REFERENCE)

    def early_features(self, backbone: Backbone, pixels: Tensor) -> Tensor:
        """Patch tokens after an early block, averaged on a coarse grid, between 0 and 1: `(B, W)`."""
        with torch.no_grad():
            tokens = backbone.patches(backbone.image_tokens(pixels, blocks=self.config.router_blocks))
        side = int(tokens.shape[1] ** 0.5)
        patches = tokens.transpose(1, 2).reshape(len(tokens), -1, side, side)
        return torch.sigmoid(F.adaptive_avg_pool2d(patches, min(self.config.router_grid, side)).flatten(1))

    def _autoencoder(self, features: Tensor, iterations: int, stream: object) -> Autoencoder:
        """A trained autoencoder of some features."""
        generator = seeded(self.config.seed, "autoencoder", stream)
        model = Autoencoder(features.shape[1], self.config.router_hidden, generator).to(features.device)
        rate, decay = self.config.router_rate, self.config.router_weight_decay
        fit_autoencoder(
            model, features, generator, iterations=iterations, rate=rate, weight_decay=decay, batch_size=BATCH
        )
        return model

    def _task_features(self, backbone: Backbone, images: TaskImages, stream: object) -> tuple[Tensor, Tensor]:
        """Features and labels of a random part of the task's images, small enough to be kept at once."""
        wanted = torch.zeros(len(images), dtype=torch.bool)
        wanted[self._some_rows(len(images), stream)] = True
        found, kept, start = [], [], 0
        for pixels, labels in images.batches():
            chosen = wanted[start : start + len(pixels)].to(pixels.device)
            start += len(pixels)
            if bool(chosen.any()):
                found.append(self.early_features(backbone, pixels[chosen]))
                kept.append(labels[chosen])
        return torch.cat(found), torch.cat(kept)

    def _some_rows(self, count: int, stream: object) -> list[int]:
        """A random choice of at most `router_images` rows, in order."""
        generator = seeded(self.config.seed, "router-images", stream)
        return sorted(torch.randperm(count, generator=generator)[: self.config.router_images].tolist())

    # ------------------------------------------------------------------------------------------ answering

    def route(self, features: Tensor) -> Route:
        """The task that repeats the early features of an image best, unless all repeat them badly.

        With reference images, an image that their autoencoder repeats better belongs to no task.
        """
        tasks, reject = self.tasks(), self.reject()
        with torch.no_grad():
            scores = torch.stack([-task.error(features).cpu() for task in tasks], dim=1)
            fixed = self.config.reject_threshold
            own = torch.stack([task.threshold.cpu() for task in tasks])
            threshold = own if fixed is None else torch.full_like(own, -fixed)
            if reject is not None:
                threshold = torch.maximum(threshold, -reject.error(features)[:, None].cpu())
        return route_by_score(scores, threshold, vote=self.config.decision == "batch-vote")


Kind = TypeVar("Kind", bound=Autoencoder)


def stored_autoencoder(tensors: Mapping[str, Tensor], kind: type[Kind]) -> Kind:
    """A frozen autoencoder of one kind around its tensors."""
    hidden, width = tensors["encode_weight"].shape
    model = kind(width, hidden).to(tensors["encode_weight"].device)
    model.load_state_dict(dict(tensors))
    return model.requires_grad_(requires_grad=False)
