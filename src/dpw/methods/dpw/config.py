"""The settings of DPW: every constant of the paper and of its code."""

from typing import Any, Literal

from pydantic import Field

from dpw.methods.parts.weighted import WeightedConfig


class DPWConfig(WeightedConfig):
    """Every constant of the paper and of its code, with the paper's choice as default."""

    prefix_length: int = Field(8, ge=1)
    """Prefixes L of a task in every block."""
    adapter_rank: int = Field(64, ge=1)
    """Rank r of the adapter."""
    adapter_scale: float = 0.05
    """Factor of the adapter's output."""
    adapter_dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout before the adapter, in training."""
    adapter_down: Literal["svd", "random", "trained", "own"] = "svd"
    """The adapter's first matrix D: frozen from the SVD of W_V, frozen at random, shared and trained, or
    own and trained for each task.
    """
    own_slice: bool = False
    """Every head scores by its own slice of a token instead of the whole token."""
    heads: Literal["adaptive", "fixed", "quarter"] = "adaptive"
    """Heads h' of the prefix branch: by how easy a task is, a multiple of CLIP's, or a quarter of them."""
    head_multiple: float = Field(1.0, gt=0)
    """Multiple of CLIP's heads with `heads=fixed`."""
    truncate_heads: bool = False
    """Cut h·F to a whole number before the nearest power of two, as the authors' code does."""
    easiness_alpha: float = 10.0
    """Steepness α of a task's easiness."""
    repa_init: Literal["qk_out", "qk_in"] = "qk_out"
    """Where W^G starts: singular vectors of the query-key product over its output or input space."""
    image_bias: float = -4.0
    """Start of the score biases in the image tower."""
    text_bias: float = -2.0
    """Start of the score biases in the text tower."""
    strict_filter: bool = False
    """Keep g above the cut-off only, instead of also at it."""
    cls_statistics: Literal["clean", "training"] = "clean"
    """Statistics of the [CLS] scores: from one pass at the end, or summed during training."""
    # Of the analysis tables; anything but the first is in variants.py.
    scores: Literal["input", "query", "attention", "trained-attention"] = "input"
    """What prefixes are scored by; anything but `input` is an ablation."""
    activation: Literal["conditional", "norm", "sigmoid", "softmax"] = "conditional"
    """From scores to weights; anything but `conditional` is an ablation."""
    fixed_cutoff: float | None = Field(None, ge=0, le=1)
    """A cut-off for all prefixes instead of the Gaussian one (ablation)."""
    adapter_weight: Literal["residual", "none", "uniform", "sum", "filtered-sum", "router"] = "residual"
    """What weighs the adapter; anything but `residual` is an ablation."""

    @property
    def varied(self) -> bool:
        """Whether a part of the paper's module is replaced by an alternative."""
        parts = (self.scores, self.activation, self.fixed_cutoff, self.adapter_weight)
        return parts != ("input", "conditional", None, "residual") or self.adapter_down == "own"


class DPWReducedConfig(DPWConfig):
    """The parameter-efficient variant: its own constants, all else as in DPW."""

    adapter_rank: int = Field(4, ge=1)
    """Rank r of the adapter."""
    own_slice: bool = True
    """Every head scores by its own slice of a token instead of the whole token."""
    heads: Literal["adaptive", "fixed", "quarter"] = "quarter"
    """Heads h' of the prefix branch: by how easy a task is, a multiple of CLIP's, or a quarter of them."""


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
