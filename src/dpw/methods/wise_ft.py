"""WiSE-FT: fine-tune, then go part of the way back in weight space."""

from typing import Literal

from pydantic import Field

from dpw.clip.backbone import Backbone
from dpw.methods.finetune import MINI_FINETUNING, FineTune, FineTuneConfig
from dpw.methods.parts.anchors import Interpolation
from dpw.methods.registry import register


class WiSEFTConfig(FineTuneConfig):
    """How much of the fine-tuned weights is kept, and where the rest comes from."""

    keep: float = Field(0.8, ge=0, le=1)
    """Share of the fine-tuned weights that is kept."""
    anchor: Literal["previous", "zeroshot"] = "previous"
    """Where the rest of the weights comes from: the model before the task, or plain CLIP."""


@register(mini=MINI_FINETUNING, zeroshot={"anchor": "zeroshot"})
class WiSEFT(FineTune):
    """`finetune`, and after every task the weights go part of the way back.

    They become 0.8 of the fine-tuned ones and 0.2 of those before the task (`keep`). The merged model is the
    next task's start. Preset `zeroshot` goes back towards plain CLIP instead.
    """

    name = "wise-ft"
    summary = "WiSE-FT: fine-tuning, then interpolation with the weights before the task"
    config_class = WiSEFTConfig
    config: WiSEFTConfig

    def __init__(self, backbone: Backbone, config: WiSEFTConfig) -> None:
        """Interpolate with the anchor whenever a task ends."""
        super().__init__(backbone, config)
        self.restraints = (Interpolation(self, config.keep, config.anchor),)
