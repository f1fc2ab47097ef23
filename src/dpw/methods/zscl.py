"""ZSCL: distil the zero-shot model on outside images and captions, stay near the start, average weights."""

from typing import Literal

from pydantic import Field

from dpw.clip.backbone import Backbone
from dpw.methods.finetune import FineTune
from dpw.methods.parts.anchors import StayNear
from dpw.methods.parts.averaging import Averaging
from dpw.methods.parts.distillation import CIL_DISTILLING, MINI_DISTILLING, Distillation
from dpw.methods.parts.reference_batches import ReferenceBatches, ReferencedConfig
from dpw.methods.registry import register


class ZSCLConfig(ReferencedConfig):
    """ZSCL's constants; the authors use ImageNet images and Conceptual Captions' validation captions."""

    teacher: Literal["previous", "init"] = "init"
    """Who is imitated: plain CLIP, or the model before the task."""
    consolidation: float = Field(1.0, ge=0)
    """Weight of the squared distance from the weights before the task."""
    average_every: int = Field(100, ge=0)
    """Steps between two weights in the running average; 0 for no average."""


CLASS_INCREMENTAL = CIL_DISTILLING | {"average_every": 10, "consolidation": 0.0}


@register(mini=MINI_DISTILLING | {"average_every": 3}, star={"consolidation": 0.0}, cil=CLASS_INCREMENTAL)
class ZSCL(FineTune):
    r"""`finetune` with three restraints: distillation, distance and averaging.

    They are distillation from plain CLIP on images and sentences that belong to no task, the squared distance
    from the weights at the start of the task, and the running average of the weights, which replaces the last
    weights at the end of the task. The average takes the start of the task and the weights after steps 1,
    101, 201, ... (`average_every` 100; 0 switches it off); in a training much shorter than 1000 steps set it
    lower, or the average stays at the start. The authors use ImageNet images and the captions of Conceptual
    Captions' validation set; give them by `reference_images` and `reference_sentences` (see
    [reference data](../reference-data.md)). The teacher's sentence features are computed once a task. Preset
    `star` is ZSCL\* (no distance term), preset `cil` holds the settings of the authors' class-incremental
    runs, which have no distance term either.
    """

    name = "zscl"
    summary = "ZSCL: distillation from plain CLIP on outside data, weight consolidation and averaging"
    config_class = ZSCLConfig
    config: ZSCLConfig

    def __init__(self, backbone: Backbone, config: ZSCLConfig) -> None:
        """Combine the three restraints."""
        super().__init__(backbone, config)
        self.distillation = Distillation(self, config, ReferenceBatches(self, config))
        self.averaging = Averaging(self, config.average_every)
        self.restraints = (self.distillation, StayNear(self, config.consolidation), self.averaging)
