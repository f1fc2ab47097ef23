"""The settings of DPW: every constant of the paper and of its code."""

from typing import Any, Literal

from pydantic import Field

from dpw.methods.parts.weighted import WeightedConfig


class DPWConfig(WeightedConfig):
    """Every constant of the paper and of its code, with the paper's choice as default."""

    prefix_length: int = Field(8, ge=1)
    adapter_rank: int = Field(64, ge=1)
    adapter_scale: float = 0.05
    adapter_dropout: float = Field(0.1, ge=0, lt=1)
    adapter_down: Literal["svd", "random", "trained", "own"] = "svd"
    own_slice: bool = False
    heads: Literal["adaptive", "fixed", "quarter"] = "adaptive"
    head_multiple: float = Field(1.0, gt=0)
    truncate_heads: bool = False
    easiness_alpha: float = 10.0
    repa_init: Literal["qk_out", "qk_in"] = "qk_out"
    image_bias: float = -4.0
    text_bias: float = -2.0
    strict_filter: bool = False
    cls_statistics: Literal["clean", "training"] = "clean"
    # Of the analysis tables; anything but the first is in variants.py.
    scores: Literal["input", "query", "attention", "trained-attention"] = "input"
    activation: Literal["conditional", "norm", "sigmoid", "softmax"] = "conditional"
    fixed_cutoff: float | None = Field(None, ge=0, le=1)
    adapter_weight: Literal["residual", "none", "uniform", "sum", "filtered-sum", "router"] = "residual"

    @property
    def varied(self) -> bool:
        """Whether a part of the paper's module is replaced by an alternative."""
        parts = (self.scores, self.activation, self.fixed_cutoff, self.adapter_weight)
        return parts != ("input", "conditional", None, "residual") or self.adapter_down == "own"


class DPWReducedConfig(DPWConfig):
    """The parameter-efficient variant: its own constants, all else as in DPW."""

    adapter_rank: int = Field(4, ge=1)
    own_slice: bool = True
    heads: Literal["adaptive", "fixed", "quarter"] = "quarter"


# What the authors' code does where it contradicts the paper.
OFFICIAL: dict[str, Any] = {
    "adapter_down": "random",
    "strict_filter": True,
    "truncate_heads": True,
    "cls_statistics": "training",
    "fit_drop_last": True,
    "decision": "batch-vote",
    "text_weight": "exact",
    "covariance": "sample",
    "weights": "paper",
}

# At the published rate of plain SGD the prefixes hardly move: the logits of `mini` are a quarter of CLIP's.
MINI: dict[str, Any] = {
    "training.optimizer": "adam",
    "training.learning_rate": 0.1,
    "training.batch_size": 32,
    "training.epochs": 6,
    "training.minimum_steps": 30,
}
