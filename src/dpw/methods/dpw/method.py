"""Dynamic Prefix Weighting: every token decides how much it takes of a task's prefixes and adapter.

One `DPWTower` holds, for all blocks of one tower, what a task learns: RePA weight W^G and bias B^G, prefix
values P_V, adapter up-projection U with its bias, and for the image tower the mean and variance of the
[CLS] scores. The adapter's down-projection D is frozen and shared by all tasks.
"""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from dpw import functional as paper
from dpw.clip.adaptation import Adaptation
from dpw.clip.backbone import Backbone
from dpw.clip.sequences import Positions
from dpw.data.task import Task
from dpw.methods.base import TaskImages, register
from dpw.methods.dpw import initial
from dpw.methods.dpw.ablations import presets as ablations
from dpw.methods.dpw.statistics import RunningScores
from dpw.methods.parts.calibrated import CalibratedConfig, CalibratedMethod
from dpw.methods.tensors import strip_prefix


class DPWConfig(CalibratedConfig):
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
    # Of the analysis tables; anything but the first is in dpw_variants.py.
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
OFFICIAL = {
    "adapter_down": "random",
    "strict_filter": True,
    "truncate_heads": True,
    "cls_statistics": "training",
    "fit_drop_last": True,
    "decision": "batch-vote",
    "text_weight": "exact",
}


class DPWTower(nn.Module):
    """What one task learns for one tower of K blocks; plain tensors stacked over the blocks."""

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
        scores = paper.repa_scores(x, weight, bias[:, positions])
        if self.scores is not None:
            self.scores.add(block, scores[:, :, 0])
        adapted = paper.adapter_output(x, down, up, up_bias, self.config.adapter_scale, self.dropout)
        cutoff = self.cutoff(block, scores)
        return paper.weighted_residual(
            scores, values, adapted, cutoff, self.sample_weight, self.config.strict_filter
        )

    def cutoff(self, block: int, scores: Tensor) -> Tensor | None:
        """Images: from the [CLS] scores (Eq. cutoff_nontxt); texts: 1 − w; 0 for samples above the gate."""
        if self.sample_weight is None or self.filtered is None:
            return None
        if self.tower.has_cls:
            mean, var = self.tower.cls_mean[block], self.tower.cls_var[block]
            cutoff = paper.gaussian_cutoff(scores[:, :, 0], mean, var).unsqueeze(2)
        else:
            cutoff = (1 - self.sample_weight).view(-1, 1, 1, 1)
        return cutoff * self.filtered.view(-1, 1, 1, 1)


@register(official=OFFICIAL, **ablations())
class DPW(CalibratedMethod):
    """The paper's method."""

    name = "dpw"
    summary = "Dynamic Prefix Weighting: per-token weights for prefixes and adapters (CVPR 2026)"
    config_class = DPWConfig
    config: DPWConfig

    def __init__(self, backbone: Backbone, config: DPWConfig) -> None:
        """Keep D and the starting points, which are computed once for all tasks."""
        super().__init__(backbone, config)
        self.start = initial.StartingPoints(backbone)
        self.down_image: Tensor | None
        self.down_text: Tensor | None
        self.register_buffer("down_image", None)
        self.register_buffer("down_text", None)
        self._running: RunningScores | None = None

    # ------------------------------------------------------------------------------------ learning a task

    def begin_task(self, task: Task, images: TaskImages) -> None:
        """Fix D before the first task, then make the task's module."""
        if self.down_image is None:
            config = self.config
            source: Literal["svd", "random"] = "svd" if config.adapter_down == "svd" else "random"
            self._set_down(self.start.adapter_down(config.adapter_rank, source, config.seed))
        super().begin_task(task, images)
        if self.config.adapter_down == "trained":
            self._unfreeze_down()
        if self.config.cls_statistics == "training":
            self._running = RunningScores()

    def _set_down(self, downs: Mapping[str, Tensor]) -> None:
        """Give both towers their D: frozen, or in one ablation a parameter that all tasks go on training."""
        device, trained = self.backbone.device, self.config.adapter_down == "trained"
        for tower in ("image", "text"):
            down = downs[tower].to(device)
            setattr(self, f"down_{tower}", nn.Parameter(down, requires_grad=False) if trained else down)

    def _unfreeze_down(self) -> None:
        """Let the new task train the D of all tasks, so that nothing remembered of them holds any more."""
        for down in (self.down_image, self.down_text):
            assert down is not None
            down.requires_grad_()
        self.clear_memory()

    def new_module(self, task: Task, features: Tensor, labels: Tensor) -> nn.ModuleDict:
        """Parameters for both towers, with as many heads as the task's difficulty asks for."""
        factor = self.head_factor(task, features, labels)
        towers = {tower: self._new_tower(tower, factor) for tower in ("image", "text")}
        heads = {tower: module.heads for tower, module in towers.items()}
        self.tasks[-1].details.update(heads=heads, factor=factor)
        return nn.ModuleDict(towers)

    def head_factor(self, task: Task, features: Tensor, labels: Tensor) -> float:
        """F = easiness / zero-shot accuracy on the training images (App., Adaptive Head Count)."""
        if self.config.heads != "adaptive":
            return self.config.head_multiple
        texts = self._training_text_features()
        correct = (features @ texts.T).argmax(dim=1) == labels.to(features.device)
        # Where CLIP gets nothing right, F would be infinite: half an image counts as right.
        accuracy = max(correct.double().mean().item(), 0.5 / len(features))
        separation = paper.class_separation(features.cpu(), labels.cpu(), texts.cpu())
        score = paper.easiness(*separation, len(task.classes), self.config.easiness_alpha)
        return float(score) / accuracy

    def _training_text_features(self) -> Tensor:
        """Frozen features of the new task's prompts."""
        with torch.no_grad():
            return F.normalize(self.backbone.encode_texts(self.training_tokens()), dim=-1)

    def _new_tower(self, tower: str, factor: float) -> DPWTower:
        """Initial parameters of one tower (App., Implementation Details)."""
        config, shape = self.config, self.start.shapes[tower]
        heads = self._heads(tower, factor)
        weight = self.start.repa_weight(
            tower,
            heads,
            config.prefix_length,
            config.repa_init,
            config.own_slice,
            config.seed + len(self.bank),
        )
        bias_value = config.image_bias if tower == "image" else config.text_bias
        bias = torch.full((shape.blocks, heads, shape.tokens, config.prefix_length), bias_value)
        values = self.start.prefix_values(tower, config.prefix_length)
        up, up_bias = self.start.adapter_up(tower, config.adapter_rank, config.seed)
        module = DPWTower(weight, bias, values, up, up_bias, has_cls=tower == "image")
        if config.varied:
            from dpw.methods.dpw import variants as dpw_variants  # builds on this file

            name = f"{tower}-{len(self.bank)}"
            return dpw_variants.new_tower(module, config, self.start.layers(tower), name)
        return module

    def _heads(self, tower: str, factor: float) -> int:
        """h' for a tower, lowered to what its width can be cut into."""
        shape, config = self.start.shapes[tower], self.config
        if config.heads == "fixed":
            wanted = max(1, round(shape.heads * config.head_multiple))
        elif config.heads == "quarter":
            wanted = paper.head_count(max(shape.heads // 4, 1), 1.0)
        else:
            wanted = paper.head_count(shape.heads, factor, config.truncate_heads)
        return initial.possible_heads(wanted, shape.width, config.prefix_length)

    def end_epoch(self) -> None:
        """The authors' way to get [CLS] statistics: sums over the epoch that has just ended."""
        if self._running is not None:
            self._store_statistics(self._running)
            self._running.clear()

    def end_task(self, images: TaskImages) -> None:
        """Our way: one clean pass over the training images with the selected weights."""
        self.eval()
        if self._running is None:
            running = RunningScores()
            adaptation = self.image_adaptation(len(self.bank) - 1, None, None, running)
            with torch.no_grad():
                for pixels, _ in images.batches():
                    self.backbone.encode_images(pixels, adaptation)
            self._store_statistics(running)
        self._running = None
        super().end_task(images)

    def _store_statistics(self, running: RunningScores) -> None:
        """Write mean and variance of the [CLS] scores into the newest task."""
        tower = self._tower(len(self.bank) - 1, "image")
        mean, var = running.moments()
        tower.cls_mean.copy_(mean)
        tower.cls_var.copy_(var)

    # ---------------------------------------------------------------------------------- acting in a tower

    def image_adaptation(
        self, index: int, weight: Tensor | None, filtered: Tensor | None, scores: RunningScores | None = None
    ) -> DPWAdaptation:
        """Task `index` in the image tower; during training its [CLS] scores may be summed up."""
        scores = self._running if scores is None and weight is None else scores
        return self._adaptation("image", index, weight, filtered, scores)

    def text_adaptation(self, index: int, weight: Tensor | None, filtered: Tensor | None) -> DPWAdaptation:
        """Task `index` in the text tower."""
        return self._adaptation("text", index, weight, filtered, None)

    def _adaptation(
        self,
        name: str,
        index: int,
        weight: Tensor | None,
        filtered: Tensor | None,
        scores: RunningScores | None,
    ) -> DPWAdaptation:
        """The paper's module, or the alternative that the settings ask for."""
        tower, down = self._tower(index, name), self.down_image if name == "image" else self.down_text
        assert down is not None
        if self.config.varied:
            from dpw.methods.dpw.variants import VariantAdaptation  # builds on this file

            layers = self.start.layers(name)
            return VariantAdaptation(tower, down, self.config, weight, filtered, scores, layers)
        return DPWAdaptation(tower, down, self.config, weight, filtered, scores)

    def _tower(self, index: int, tower: str) -> DPWTower:
        """The parameters of one task for one tower."""
        module: Any = self.bank[index]
        found: DPWTower = module[tower]
        return found

    # ----------------------------------------------------------------------------------- state, as tensors

    def shared_state(self) -> dict[str, Tensor]:
        """The frozen D of both towers."""
        downs = {"down_image": self.down_image, "down_text": self.down_text}
        return {name: down for name, down in downs.items() if down is not None}

    def load_shared_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take D back instead of computing it, so that it is the very same."""
        if tensors:
            self._set_down({tower: tensors[f"down_{tower}"] for tower in ("image", "text")})
            self.clear_memory()

    def stored_module(self, tensors: Mapping[str, Tensor]) -> nn.ModuleDict:
        """Both towers from stored tensors; the shapes say how many heads."""
        towers = ("image", "text")
        parts = {tower: self._stored_tower(tower, strip_prefix(f"{tower}.", tensors)) for tower in towers}
        module = nn.ModuleDict(parts)
        module.load_state_dict(dict(tensors))
        return module

    def _stored_tower(self, tower: str, tensors: Mapping[str, Tensor]) -> DPWTower:
        """One tower of the shapes of its stored tensors."""
        if self.config.varied:
            from dpw.methods.dpw import variants as dpw_variants  # builds on this file

            return dpw_variants.stored_tower(tensors, self.start.layers(tower), has_cls=tower == "image")
        names = ("weight", "bias", "values", "up", "up_bias")
        return DPWTower(*(tensors[name] for name in names), has_cls=tower == "image")

    def abandon(self, learned: int, shared: Mapping[str, Tensor]) -> None:
        """Also drop a D that came with the abandoned task."""
        super().abandon(learned, shared)
        if not shared:
            self.down_image = self.down_text = None

    def progress_state(self) -> dict[str, Tensor]:
        """The running sums of the authors' statistics."""
        return {} if self._running is None else self._running.state()

    def load_progress_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the running sums back."""
        if self._running is not None:
            self._running.load(tensors)


@register(official=OFFICIAL, **ablations("prefix length"))
class DPWReduced(DPW):
    """The paper's parameter-efficient variant (Ours†): each head scores only its own slice, low rank."""

    name = "dpw-reduced"
    summary = "DPW with 6.5 times fewer parameters: each head scores its own slice, adapter rank 4"
    config_class = DPWReducedConfig
