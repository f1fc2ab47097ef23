"""DIKI: prefixes attended to by a softmax of their own, beside CLIP's attention."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from dpw import functional as paper
from dpw.clip.adaptation import Adaptation
from dpw.clip.backbone import Backbone
from dpw.clip.sequences import Positions
from dpw.data.reference import seeded
from dpw.data.task import Task
from dpw.methods.base import Method, TaskImages
from dpw.methods.config import TrainingConfig
from dpw.methods.parts.weighted import ROUTER, WeightedAnswers, WeightedConfig, stored_router
from dpw.methods.registry import register
from dpw.methods.tensors import strip_prefix


class DIKIConfig(WeightedConfig):
    """DIKI's constants."""

    training: TrainingConfig = TrainingConfig(learning_rate=5.0, batch_size=128, drop_last=False)
    """How one task is trained."""
    prefix_length: int = Field(8, ge=1)
    """Prefixes of a task in every block."""
    blocks: int = Field(8, ge=1)
    """Blocks from the first that have prefixes."""


class DIKITower(nn.Module):
    """Prefix keys and values `(K, L, D)` of the first K blocks of a tower; the values start at zero."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        """Take the starting values."""
        super().__init__()
        self.keys, self.values = nn.Parameter(keys.clone()), nn.Parameter(values.clone())


class DIKIAdaptation(Adaptation):
    """One task acting in one tower for one call."""

    token_by_token = True

    def __init__(self, tower: DIKITower, weight: Tensor | None) -> None:
        """`weight` is per sample; without it (training) the prefixes count fully."""
        self.blocks = list(zip(tower.keys.unbind(0), tower.values.unbind(0), strict=True))
        self.weight = weight

    def value(self, block: int, x: Tensor, q: Tensor, positions: Positions) -> Tensor | None:  # noqa: ARG002
        """The prefixes' own attention, for the first blocks only."""
        if block >= len(self.blocks):
            return None
        return paper.attention_residual(q, *self.blocks[block], sample_weight=self.weight)


@register(
    official={
        "decision": "batch-vote",
        "text_weight": "exact",
        "covariance": "sample",
        "weights": "paper",
    },
    mini={
        "training.optimizer": "adam",
        "training.learning_rate": 0.3,
        "training.batch_size": 32,
        "training.epochs": 6,
        "training.minimum_steps": 30,
    },
)
class DIKI(Method):
    """Separate softmax over raw prefixes, weighted by the distribution-aware calibration.

    CLIP is frozen. In the first eight blocks of both towers a task has eight prefix keys and values a
    block. The frozen query of a token attends to them in a softmax of its own, and the result is added to
    CLIP's attention value; the values start at zero, so learning starts from CLIP. A Gaussian over the
    frozen features of each task's training images tells which task an image belongs to, and its calibrated
    likelihood weighs what the prefixes add, in the image and in the texts. The Gaussians have no part in
    the learned parameters: on ViT-B/16 those are 163 840 a task, 1.8 M for eleven.

    The decision is made for each image; the preset `official` lets a batch vote, as the public code does.
    The public code keeps its parameters in half precision and trains them with a learning rate of 5 without
    scaling the loss; ours are float32.
    """

    name = "diki"
    summary = "DIKI: prefix keys and values in a softmax of their own (ECCV 2024)"
    config_class = DIKIConfig
    config: DIKIConfig
    answers: WeightedAnswers
    routes = True
    isolated = True
    resident = (f"{ROUTER}.",)
    folder_rates = (0.1, 0.3, 0.03)
    folder_settings: ClassVar[Mapping[str, Any]] = {"router_features": "image+patches"}

    def __init__(self, backbone: Backbone, config: DIKIConfig) -> None:
        """Weigh every task's prefixes by its Gaussian."""
        super().__init__(backbone, config)
        self.answers = WeightedAnswers(self, self.image_adaptation, self.text_adaptation)

    def new_module(self, task: Task, images: TaskImages) -> nn.ModuleDict:
        """Keys from U(−1, 1), values zero: the model starts as CLIP."""
        generator = seeded(self.config.seed, task.name, "prefixes")
        towers = {tower: self.new_tower(tower, generator) for tower in ("image", "text")}
        return nn.ModuleDict({**towers, ROUTER: self.answers.fit(images)})

    def new_tower(self, tower: str, generator: torch.Generator | None = None) -> DIKITower:
        """Initial prefixes of one tower."""
        shape = self.backbone.image_shape if tower == "image" else self.backbone.text_shape
        size = (min(self.config.blocks, shape.blocks), self.config.prefix_length, shape.width)
        keys = 2 * torch.rand(size, generator=generator) - 1
        return DIKITower(keys, torch.zeros(size))

    def end_task(self, images: TaskImages) -> None:
        """Close the task, and store the text features of its classes with it."""
        super().end_task(images)
        self.eval()
        self.answers.keep_texts()

    def stored_module(self, tensors: Mapping[str, Tensor]) -> nn.ModuleDict:
        """Both towers and the Gaussian with the shapes of stored tensors."""
        towers = {t: DIKITower(tensors[f"{t}.keys"], tensors[f"{t}.values"]) for t in ("image", "text")}
        return nn.ModuleDict({**towers, ROUTER: stored_router(strip_prefix(f"{ROUTER}.", tensors))})

    def image_adaptation(
        self,
        index: int,
        weight: Tensor | None,
        filtered: Tensor | None,  # noqa: ARG002
    ) -> DIKIAdaptation:
        """Task `index` in the image tower."""
        return DIKIAdaptation(self._tower(index, "image"), weight)

    def text_adaptation(
        self,
        index: int,
        weight: Tensor | None,
        filtered: Tensor | None,  # noqa: ARG002
    ) -> DIKIAdaptation:
        """Task `index` in the text tower."""
        return DIKIAdaptation(self._tower(index, "text"), weight)

    def _tower(self, index: int, tower: str) -> DIKITower:
        """The prefixes of one task for one tower."""
        found: DIKITower = self.bank.part(index, tower)
        return found
