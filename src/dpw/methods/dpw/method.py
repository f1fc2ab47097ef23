"""Dynamic Prefix Weighting: every token decides how much it takes of a task's prefixes and adapter.

For every task each tower gets a `DPWTower` (see `tower.py`): RePA weights, prefix values and a low-rank
adapter for all its blocks. The adapter's down-projection D is frozen and shared by all tasks.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dpw import functional as paper
from dpw.clip.backbone import Backbone
from dpw.data.reference import seeded
from dpw.data.task import Task
from dpw.methods.base import Method, TaskImages
from dpw.methods.dpw.ablations import presets as ablations
from dpw.methods.dpw.config import MINI, OFFICIAL, DPWConfig, DPWReducedConfig
from dpw.methods.dpw.initialization import Initializer, possible_heads
from dpw.methods.dpw.parts import choose_parts
from dpw.methods.dpw.statistics import RunningScores
from dpw.methods.dpw.tower import DPWAdaptation, DPWTower
from dpw.methods.parts.weighted import ROUTER, WeightedAnswers, stored_router
from dpw.methods.registry import register
from dpw.methods.tensors import strip_prefix

TOWERS = ("image", "text")


@register(official=OFFICIAL, mini=MINI | {"adapter_rank": 16}, **ablations())
class DPW(Method):
    """The paper's method.

    CLIP is frozen. For every task each block of both towers has eight prefixes and a low-rank adapter, and
    every token decides how much it takes: a learned score for each head and prefix, a sigmoid, a norm only
    where the shares sum to more than one, a cut-off that leaves out prefixes which an image does not call
    for, and the adapter for what the norm took away. [The method next to the paper](../method.md) goes
    through it equation by equation and says what the preset `official` does differently; [the
    ablations](../ablations.md) are presets.
    """

    name = "dpw"
    summary = "Dynamic Prefix Weighting: per-token weights for prefixes and adapters (CVPR 2026)"
    config_class = DPWConfig
    config: DPWConfig
    answers: WeightedAnswers
    routes = True
    isolated = True
    resident: ClassVar[tuple[str, ...]] = (f"{ROUTER}.",)
    shared = ("down_image", "down_text")
    temporary = ("running",)
    folder_rates = (0.03, 0.1, 0.01)
    folder_settings: ClassVar[Mapping[str, Any]] = {"router_features": "image+patches"}

    def __init__(self, backbone: Backbone, config: DPWConfig) -> None:
        """Keep D and the starting points, which are computed once for all tasks."""
        super().__init__(backbone, config)
        self.answers = WeightedAnswers(self, self.image_adaptation, self.text_adaptation)
        self.parts = choose_parts(config)
        self.initial = Initializer(backbone)
        self.down_image: Tensor | None
        self.down_text: Tensor | None
        self.register_buffer("down_image", None)
        self.register_buffer("down_text", None)
        self.running: RunningScores | None = None

    @property
    def independent(self) -> bool:
        """Every task is learned for itself, but in the ablation where all of them train the same D."""
        return self.config.adapter_down != "trained"

    # ------------------------------------------------------------------------------------ learning a task

    def begin_task(self, task: Task, images: TaskImages) -> None:
        """Fix D before the first task, then make the task's module."""
        if self.down_image is None:
            config = self.config
            source: Literal["svd", "random"] = "svd" if config.adapter_down == "svd" else "random"
            self._set_down(self.initial.adapter_down(config.adapter_rank, source, config.seed))
        super().begin_task(task, images)
        if self.config.adapter_down == "trained":
            self._unfreeze_down()
        if self.config.cls_statistics == "training":
            self.running = RunningScores()

    def _set_down(self, downs: Mapping[str, Tensor]) -> None:
        """Give both towers their D: frozen, or in one ablation a parameter that all tasks go on training."""
        device, trained = self.backbone.device, self.config.adapter_down == "trained"
        for tower in TOWERS:
            down = downs[tower].to(device)
            setattr(self, f"down_{tower}", nn.Parameter(down, requires_grad=False) if trained else down)

    def _unfreeze_down(self) -> None:
        """Let the new task train the D of all tasks, so that no kept feature of them holds any more."""
        for down in (self.down_image, self.down_text):
            assert down is not None
            down.requires_grad_()
        self.clear_features()

    def new_module(self, task: Task, images: TaskImages) -> nn.ModuleDict:
        """The task's Gaussian, and both towers with as many heads as its difficulty asks for."""
        seen, labels = self.answers.collect(self.routing_images(images))
        features = seen[: len(images), : self.backbone.feature_width]
        factor = self.head_factor(task, features, labels[: len(images)])
        towers = {tower: self.new_tower(tower, factor, task.name) for tower in TOWERS}
        heads = {tower: module.heads for tower, module in towers.items()}
        self.tasks[-1].details.update(heads=heads, factor=factor)
        return nn.ModuleDict({**towers, ROUTER: self.answers.fit_seen(seen, labels)})

    def routing_images(self, images: TaskImages) -> TaskImages:
        """The images by which the new task will be recognised: those it is trained on come first."""
        return images

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

    def new_tower(self, tower: str, factor: float = 1.0, task: str = "") -> DPWTower:
        """Initial parameters of one tower (App., Implementation Details), its heads multiplied by F.

        What is drawn depends on the seed and the name of the task.
        """
        config, shape = self.config, self.initial.shapes[tower]
        heads = self._heads(tower, factor)
        weight = self.initial.repa_weight(
            tower,
            heads,
            config.prefix_length,
            config.repa_init,
            config.own_slice,
            seeded(config.seed, task, tower),
        )
        bias_value = config.image_bias if tower == "image" else config.text_bias
        bias = torch.full((shape.blocks, heads, shape.tokens, config.prefix_length), bias_value)
        values = self.initial.prefix_values(tower, config.prefix_length)
        up, up_bias = self.initial.adapter_up(tower, config.adapter_rank, config.seed)
        module = DPWTower(weight, bias, values, up, up_bias, has_cls=tower == "image")
        return self.parts.new_tower(module, self.initial.layers(tower), f"{tower}-{task}")

    def _heads(self, tower: str, factor: float) -> int:
        """h' for a tower, lowered to what its width can be cut into."""
        shape, config = self.initial.shapes[tower], self.config
        if config.heads == "fixed":
            wanted = max(1, round(shape.heads * config.head_multiple))
        elif config.heads == "quarter":
            wanted = paper.head_count(max(shape.heads // 4, 1), 1.0)
        else:
            wanted = paper.head_count(shape.heads, factor, config.truncate_heads)
        return possible_heads(wanted, shape.width, config.prefix_length)

    def forward(self, pixels: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy over the task's classes, for a few images at a time where a batch is large."""
        return self.answers.loss(pixels, labels)

    def end_epoch(self) -> None:
        """The authors' way to get [CLS] statistics: sums over the epoch that has just ended."""
        if self.running is not None:
            self._store_statistics(self.running)
            self.running.clear()

    def end_task(self, images: TaskImages) -> None:
        """Our way: one clean pass over the training images with the selected weights."""
        self.eval()
        if self.running is None:
            running = RunningScores()
            adaptation = self.image_adaptation(len(self.bank) - 1, None, None, running)
            with torch.no_grad():
                for pixels, _ in images.batches():
                    self.backbone.encode_images(pixels, adaptation)
            self._store_statistics(running)
        super().end_task(images)
        self.keep_texts()

    def keep_texts(self) -> None:
        """Store text features of the task's classes with it."""
        self.answers.keep_texts()

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
        scores = self.running if scores is None and weight is None else scores
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
        """One task acting in one tower for one call."""
        down = self.down_image if name == "image" else self.down_text
        assert down is not None
        layers = self.initial.layers(name)
        found = self.parts.adaptation(self._tower(index, name), down, weight, filtered, scores, layers)
        found.has_cls_token = self.backbone.family.images.class_tokens > 0
        found.share = self.share if name == "image" else None
        return found

    def _tower(self, index: int, tower: str) -> DPWTower:
        """The parameters of one task for one tower."""
        found: DPWTower = self.bank.part(index, tower)
        return found

    # ----------------------------------------------------------------------------------- state, as tensors

    def shared_state(self) -> dict[str, Tensor]:
        """The frozen D of both towers."""
        downs = {"down_image": self.down_image, "down_text": self.down_text}
        return {name: down for name, down in downs.items() if down is not None}

    def load_shared_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take D back instead of computing it, so that it is the very same."""
        if tensors:
            replaced = self.down_image is not None
            self._set_down({tower: tensors[f"down_{tower}"] for tower in TOWERS})
            if replaced:
                self.clear_features()

    def stored_module(self, tensors: Mapping[str, Tensor]) -> nn.ModuleDict:
        """Both towers and the Gaussian with room for stored tensors."""
        towers = {
            tower: self.parts.stored_tower(
                strip_prefix(f"{tower}.", tensors), self.initial.layers(tower), tower == "image"
            )
            for tower in TOWERS
        }
        return nn.ModuleDict({**towers, ROUTER: stored_router(strip_prefix(f"{ROUTER}.", tensors))})

    def progress_state(self) -> dict[str, Tensor]:
        """The running sums of the authors' statistics."""
        return {} if self.running is None else self.running.state()

    def load_progress_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the running sums back."""
        if self.running is not None:
            self.running.load(tensors)


@register(official=OFFICIAL, mini=MINI, **ablations("prefix length"))
class DPWReduced(DPW):
    """The paper's parameter-efficient variant (Ours†): each head scores only its own slice, low rank.

    As [DPW](dpw.md), with an adapter of rank 4, a quarter of CLIP's heads for every task, and scores that
    see only their own head's slice of a token: 4.5 M learned parameters for eleven tasks of ViT-B/16
    instead of 29.5 M.
    """

    name = "dpw-reduced"
    summary = "DPW with 6.5 times fewer parameters: each head scores its own slice, adapter rank 4"
    config_class = DPWReducedConfig
