"""DIKI: prefixes attended to by a softmax of their own, beside CLIP's attention."""

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor, nn

from dpw import functional as paper
from dpw.clip.adaptation import Adaptation
from dpw.clip.sequences import Positions
from dpw.data.task import Task
from dpw.methods.base import register
from dpw.methods.config import TrainingConfig
from dpw.methods.parts.calibrated import CalibratedConfig, CalibratedMethod


class DIKIConfig(CalibratedConfig):
    """DIKI's constants."""

    training: TrainingConfig = TrainingConfig(learning_rate=5.0, batch_size=128)
    prefix_length: int = Field(8, ge=1)
    blocks: int = Field(8, ge=1)


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


@register(official={"decision": "batch-vote", "fit_drop_last": True, "text_weight": "exact"})
class DIKI(CalibratedMethod):
    """Separate softmax over raw prefixes, weighted by the distribution-aware calibration."""

    name = "diki"
    summary = "DIKI: prefix keys and values in a softmax of their own (ECCV 2024)"
    config_class = DIKIConfig
    config: DIKIConfig

    def new_module(self, task: Task, features: Tensor, labels: Tensor) -> nn.ModuleDict:  # noqa: ARG002
        """Keys from U(−1, 1), values zero: the model starts as CLIP."""
        generator = torch.Generator().manual_seed(self.config.seed + len(self.bank))
        towers = {}
        for tower, shape in (("image", self.backbone.image_shape), ("text", self.backbone.text_shape)):
            size = (min(self.config.blocks, shape.blocks), self.config.prefix_length, shape.width)
            keys = 2 * torch.rand(size, generator=generator) - 1
            towers[tower] = DIKITower(keys, torch.zeros(size))
        return nn.ModuleDict(towers)

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
        found: DIKITower = self.bank[index][tower]  # type: ignore[index]
        return found

    def stored_module(self, tensors: Mapping[str, Tensor]) -> nn.ModuleDict:
        """Both towers from stored tensors."""
        towers = ("image", "text")
        return nn.ModuleDict({t: DIKITower(tensors[f"{t}.keys"], tensors[f"{t}.values"]) for t in towers})
