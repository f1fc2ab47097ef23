"""WiSE-FT: fine-tune, then go part of the way back in weight space."""

from typing import Literal

import torch
from pydantic import Field

from dpw.methods.base import TaskImages, register
from dpw.methods.finetune import FineTune, FineTuneConfig, learned_weights


class WiSEFTConfig(FineTuneConfig):
    """How much of the fine-tuned weights is kept, and where the rest comes from."""

    keep: float = Field(0.8, ge=0, le=1)
    anchor: Literal["previous", "zeroshot"] = "previous"


@register(zeroshot={"anchor": "zeroshot"})
class WiSEFT(FineTune):
    """After each task θ ← 0.8·θ_finetuned + 0.2·θ_anchor; the merged model is the next task's start."""

    name = "wise-ft"
    summary = "WiSE-FT: fine-tuning, then interpolation with the weights before the task"
    config_class = WiSEFTConfig
    config: WiSEFTConfig
    keeps_start = True

    def end_task(self, images: TaskImages) -> None:
        """Interpolate the weights before the task is closed."""
        anchor = self.start_model if self.config.anchor == "previous" else self.backbone
        with torch.no_grad():
            for name, target in learned_weights(anchor).items():
                tensor = self.weights()[name]
                tensor.copy_(target.lerp(tensor, self.config.keep))
        super().end_task(images)
