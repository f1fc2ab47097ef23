"""Which module acts in the towers: the paper's, or one whose parts an analysis table replaces.

The one place where the paper's module and its variants meet: `method.py` asks here and knows of no variant.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor

from dpw.methods.dpw.config import DPWConfig
from dpw.methods.dpw.statistics import RunningScores
from dpw.methods.dpw.tower import DPWAdaptation, DPWTower
from dpw.methods.dpw.variants import VariantParts


class Parts(Protocol):
    """How a task's tower is made, read back, and acts; `layers` are the tower's frozen blocks."""

    def new_tower(self, tower: DPWTower, layers: Sequence[Any], key: str) -> DPWTower:
        """A tower that starts from the paper's; `key` tells random draws apart."""
        ...

    def stored_tower(self, tensors: Mapping[str, Tensor], layers: Sequence[Any], has_cls: bool) -> DPWTower:
        """A tower with room for stored tensors."""
        ...

    def adaptation(
        self,
        tower: DPWTower,
        down: Tensor,
        weight: Tensor | None,
        filtered: Tensor | None,
        scores: RunningScores | None,
        layers: Sequence[Any],
    ) -> DPWAdaptation:
        """The tower acting for one call."""
        ...


class PaperParts:
    """The paper's module, untouched."""

    def __init__(self, config: DPWConfig) -> None:
        """Take the settings."""
        self.config = config

    def new_tower(self, tower: DPWTower, layers: Sequence[Any], key: str) -> DPWTower:  # noqa: ARG002
        """The paper's tower."""
        return tower

    def stored_tower(
        self,
        tensors: Mapping[str, Tensor],
        layers: Sequence[Any],  # noqa: ARG002
        has_cls: bool,
    ) -> DPWTower:
        """A tower of the shapes of its stored tensors, which say how many heads it has."""
        names = ("weight", "bias", "values", "up", "up_bias")
        return DPWTower(*(tensors[name] for name in names), has_cls=has_cls)

    def adaptation(
        self,
        tower: DPWTower,
        down: Tensor,
        weight: Tensor | None,
        filtered: Tensor | None,
        scores: RunningScores | None,
        layers: Sequence[Any],  # noqa: ARG002
    ) -> DPWAdaptation:
        """The paper's tower acting for one call."""
        return DPWAdaptation(tower, down, self.config, weight, filtered, scores)


def choose_parts(config: DPWConfig) -> Parts:
    """The paper's module, unless the settings replace one of its parts."""
    return VariantParts(config) if config.varied else PaperParts(config)
