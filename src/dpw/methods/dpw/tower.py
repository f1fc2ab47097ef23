"""What DPW learns for a task in one tower, and how it acts there for one call."""

import torch
from torch import Tensor, nn

from dpw import functional as paper
from dpw.clip.adaptation import Adaptation
from dpw.clip.sequences import Positions
from dpw.methods.dpw import quick
from dpw.methods.dpw.config import DPWConfig
from dpw.methods.dpw.statistics import RunningScores


class DPWTower(nn.Module):
    """What one task learns for one tower of K blocks; plain tensors stacked over the blocks.

    RePA weight W^G and bias B^G, prefix values P_V, adapter up-projection U with its bias, and for the image
    tower the mean and variance of the [CLS] scores.
    """

    cls_mean: Tensor
    cls_var: Tensor

    def __init__(
        self, weight: Tensor, bias: Tensor, values: Tensor, up: Tensor, up_bias: Tensor, *, has_cls: bool
    ) -> None:
        """weight `(K, h, D or D/h, L)`, bias `(K, h, M, L)`, values `(K, L, D)`, up `(K, r, D)`."""
        super().__init__()
        self.weight, self.bias, self.values = (nn.Parameter(t.clone()) for t in (weight, bias, values))
        self.up, self.up_bias = nn.Parameter(up.clone()), nn.Parameter(up_bias.clone())
        self.has_cls = has_cls
        if has_cls:
            blocks, heads, _, prefixes = weight.shape
            self.keep_cls_scores(blocks, heads, prefixes)

    def keep_cls_scores(self, blocks: int, heads: int, prefixes: int) -> None:
        """Room for mean and variance of the [CLS] scores."""
        self.register_buffer("cls_mean", torch.zeros(blocks, heads, prefixes))
        self.register_buffer("cls_var", torch.ones(blocks, heads, prefixes))

    @property
    def heads(self) -> int:
        """Heads of the prefix branch, h'."""
        return self.weight.shape[1]


class DPWAdaptation(Adaptation):
    """One task acting in one tower for one call."""

    token_by_token = True
    has_cls_token = True  # False in an image tower whose first token is a patch like any other
    share: tuple[int, int, int] | None = None  # of a batch that several processes train on together

    def __init__(
        self,
        tower: DPWTower,
        down: Tensor,
        config: DPWConfig,
        weight: Tensor | None,
        filtered: Tensor | None,
        scores: RunningScores | None = None,
    ) -> None:
        """`weight` and `filtered` are per sample; without them (training) all counts and nothing is cut."""
        self.tower, self.config, self.sample_weight, self.filtered = tower, config, weight, filtered
        self.scores = scores
        self.dropout = config.adapter_dropout if tower.training and weight is None else 0.0
        self.unbind(tower, down)

    def unbind(self, tower: DPWTower, down: Tensor) -> None:
        """Take the stacks apart once: the backward pass then needs no zero-padded sum for every block."""
        parameters = (tower.weight, tower.bias, tower.values, down, tower.up, tower.up_bias)
        self.blocks = list(zip(*(stacked.unbind(0) for stacked in parameters), strict=True))

    def value(self, block: int, x: Tensor, q: Tensor, positions: Positions) -> Tensor:  # noqa: ARG002
        """O_R, what the tokens take from prefixes and adapter (Eq. final_formula)."""
        weight, bias, values, down, up, up_bias = self.blocks[block]
        scores = quick.repa_scores(x, weight, bias[:, positions])
        if self.scores is not None:
            self.scores.add(block, paper.image_scores(scores, self.has_cls_token))
        adapted = self.adapted(x, down, up, up_bias)
        if self.sample_weight is None:
            return quick.trained_residual(scores, values, adapted)
        cutoff = self.cutoff(block, scores)
        return paper.weighted_residual(
            scores, values, adapted, cutoff, self.sample_weight, self.config.strict_filter
        )

    def adapted(self, x: Tensor, down: Tensor, up: Tensor, bias: Tensor) -> Tensor:
        """E(X); a batch that is cut once more, to save memory, drops by a draw of its own."""
        whole = self.share is not None and len(x) == self.share[1] - self.share[0]
        share = self.share if whole else None
        return quick.adapter_output(x, down, up, bias, self.config.adapter_scale, self.dropout, share)

    def cutoff(self, block: int, scores: Tensor) -> Tensor | None:
        """Images: from the [CLS] scores (Eq. cutoff_nontxt); texts: 1 − w; 0 for samples above the gate."""
        if self.sample_weight is None or self.filtered is None:
            return None
        if self.tower.has_cls:
            mean, var = self.tower.cls_mean[block], self.tower.cls_var[block]
            whole = paper.image_scores(scores, self.has_cls_token)
            cutoff = paper.gaussian_cutoff(whole, mean, var).unsqueeze(2)
        else:
            cutoff = (1 - self.sample_weight).view(-1, 1, 1, 1)
        return cutoff * self.filtered.view(-1, 1, 1, 1)
