"""MoE-Adapters: experts beside every MLP, a gate per task, and autoencoders that tell the task.

The public code looks at images with an ImageNet AlexNet to tell the task; here the autoencoders repeat
early features of the frozen CLIP itself, so that no second network is needed.
"""

from collections.abc import Iterator, Mapping

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from dpw.backbone import Backbone, TowerShape
from dpw.data.task import Task
from dpw.images import Images
from dpw.methods.base import LearnedTask, TaskImages, ensemble, register
from dpw.methods.candidates import ClassGroup
from dpw.methods.config import RoutedConfig, TrainingConfig
from dpw.methods.mixture import Count, Experts, MixtureAdaptation, TaskRouter
from dpw.methods.switched import SwitchedMethod
from dpw.routers import Autoencoder, fit_autoencoder, route_by_score
from dpw.routing import Route

TASK_RATES = {"Aircraft": 5e-3, "CIFAR100": 5e-3, "EuroSAT": 1e-4, "MNIST": 1e-4}
FEW_SHOT_RATES = {
    "Aircraft": 8e-3,
    "Caltech101": 5e-4,
    "CIFAR100": 2e-4,
    "DTD": 5e-3,
    "EuroSAT": 1e-3,
    "Flowers": 1e-3,
    "Food": 1e-2,
    "MNIST": 1e-4,
    "OxfordPet": 1e-2,
    "StanfordCars": 1e-2,
    "SUN397": 1e-2,
}
# The learning rate that is right for most tasks, and 300 steps of the autoencoder at a smaller one.
FEW_SHOT = {
    "training.iterations": 500,
    "training.task_learning_rates": FEW_SHOT_RATES,
    "router_rate": 0.003,
}
TOWERS = ("image", "text")


class MoEAdaptersConfig(RoutedConfig):
    """MoE-Adapters' constants.

    `reject_threshold` is 0.0655 (few-shot 0.0585 or 0.06) in the public code, for AlexNet's features; without
    it each task rejects what it repeats worse than `reject_quantile` of its own training images.
    """

    training: TrainingConfig = TrainingConfig(
        optimizer="adamw",
        learning_rate=1e-3,
        task_learning_rates=TASK_RATES,
        batch_size=64,
        epochs=None,
        iterations=1000,
        schedule="warmup-cosine",
        warmup=100,
        label_smoothing=0.2,
        select="last",
    )
    experts: int = Field(22, ge=1)
    active_experts: int = Field(2, ge=1)
    expert_rank: int = Field(64, ge=1)
    expert_scale: float = 0.1
    expert_dropout: float = Field(0.1, ge=0, lt=1)
    noise_floor: float = Field(0.01, ge=0)
    router_blocks: int = Field(3, ge=1)
    router_grid: int = Field(7, ge=1)
    router_hidden: int = Field(100, ge=1)
    router_iterations: int = Field(300, ge=1)
    router_rate: float = Field(0.01, gt=0)
    router_weight_decay: float = Field(1e-4, ge=0)
    router_images: int = Field(2048, ge=1)
    reject_quantile: float = Field(0.99, gt=0, le=1)
    reject_threshold: float | None = Field(None, gt=0)
    reference_images: str | None = None
    reference_iterations: int = Field(1000, ge=1)


@register(official={"decision": "batch-vote"}, few_shot=FEW_SHOT)
class MoEAdapters(SwitchedMethod):
    """Experts that tasks share and freeze, chosen by the gates of the task that repeats an image best."""

    name = "moe-adapters"
    summary = "MoE-Adapters: 22 shared adapters a block, two per sample, autoencoders as router (CVPR 2024)"
    status = "from the paper and its code; task router on CLIP's early features instead of AlexNet's"
    config_class = MoEAdaptersConfig
    config: MoEAdaptersConfig

    def __init__(self, backbone: Backbone, config: MoEAdaptersConfig) -> None:
        """Make the experts of both towers; the autoencoder of reference images comes with the first task."""
        super().__init__(backbone, config)
        generator = torch.Generator().manual_seed(config.seed)
        towers = {
            tower: Experts(self._shape(tower), config.experts, config.expert_rank, generator).requires_grad_(
                requires_grad=False
            )
            for tower in TOWERS
        }
        self.experts = nn.ModuleDict(towers).to(backbone.device)
        self.autoencoders = nn.ModuleList()
        self.least: list[Tensor] = []
        self.reject: Autoencoder | None = None
        self.reference_images: TaskImages | None = None
        self.counts: dict[str, Tensor] = {}

    def _shape(self, tower: str) -> TowerShape:
        """Size of one tower."""
        return self.backbone.image_shape if tower == "image" else self.backbone.text_shape

    # ------------------------------------------------------------------------------------ learning a task

    def begin_task(self, task: Task, images: TaskImages) -> None:
        """Train the task's autoencoder, add gates that start at zero, free the experts nobody relies on."""
        super().begin_task(task, images)
        if self.reject is None and self.reference_images is not None:
            self.reject, _ = self._autoencoder(self.reference_images, self.config.reference_iterations, 0)
        autoencoder, least = self._autoencoder(images, self.config.router_iterations, len(self.tasks))
        self.autoencoders.append(autoencoder)
        self.least.append(least)
        routers = {}
        for tower in TOWERS:
            shape = self._shape(tower)
            zeros = torch.zeros(shape.blocks, shape.width, self.config.experts)
            routers[tower] = TaskRouter(zeros, zeros)
            self._experts(tower).unfreeze_the_rest()
            self.counts[tower] = torch.zeros(shape.blocks, self.config.experts, dtype=torch.long)
        self.bank.append(nn.ModuleDict(routers).to(self.backbone.device))

    def end_task(self, images: TaskImages) -> None:
        """Freeze for ever the experts this task chose most."""
        super().end_task(images)
        for tower, counts in self.counts.items():
            self._experts(tower).freeze_most_used(counts, self.config.active_experts)
        self.counts = {}

    def progress_state(self) -> dict[str, Tensor]:
        """How often each expert was chosen so far."""
        return dict(self.counts)

    def load_progress_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on counting."""
        self.counts = {tower: counts.clone() for tower, counts in tensors.items()}

    def image_adaptation(self, index: int) -> MixtureAdaptation:
        """The image tower's experts by the gates of one task."""
        return self._mixture(index, "image")

    def encode_group(self, index: int, group: ClassGroup) -> Tensor:
        """Text features by the gates of one task; the start token, the same in all prompts, chooses."""
        texts = self.backbone.encode_texts(self.tokens(group), self._mixture(index, "text"))
        return ensemble(texts, len(group.templates))

    def _mixture(self, index: int, tower: str) -> MixtureAdaptation:
        """One task in one tower, noisy and counted in training."""
        router = self.bank[index][tower]  # type: ignore[index]
        assert isinstance(router, TaskRouter)
        return MixtureAdaptation(
            self._experts(tower),
            router,
            top=self.config.active_experts,
            scale=self.config.expert_scale,
            dropout=self.config.expert_dropout if self.training else 0.0,
            noise_floor=self.config.noise_floor,
            count=self._counting(tower) if self.training else None,
        )

    def _counting(self, tower: str) -> Count:
        """Adds the experts of a batch to the task's counts."""

        def count(block: int, chosen: Tensor) -> None:
            """Add one batch."""
            found = torch.bincount(chosen.detach().flatten().cpu(), minlength=self.config.experts)
            self.counts[tower][block] += found

        return count

    def _experts(self, tower: str) -> Experts:
        """The experts of one tower."""
        found = self.experts[tower]
        assert isinstance(found, Experts)
        return found

    # --------------------------------------------------------------------------------- telling the task

    def early_features(self, pixels: Tensor) -> Tensor:
        """Patch tokens after an early block, averaged on a coarse grid, between 0 and 1: `(B, W)`."""
        with torch.no_grad():
            tokens = self.backbone.image_tokens(pixels, blocks=self.config.router_blocks)[:, 1:]
        side = int(tokens.shape[1] ** 0.5)
        patches = tokens.transpose(1, 2).reshape(len(tokens), -1, side, side)
        return torch.sigmoid(F.adaptive_avg_pool2d(patches, min(self.config.router_grid, side)).flatten(1))

    def _autoencoder(self, images: TaskImages, iterations: int, stream: int) -> tuple[Autoencoder, Tensor]:
        """An autoencoder of some images, and the least score at which it accepts one."""
        generator = torch.Generator().manual_seed(self.config.seed * 1000 + stream)
        features = torch.cat(list(self._router_features(images, generator)))
        model = Autoencoder(features.shape[1], self.config.router_hidden, generator).to(features.device)
        fit_autoencoder(
            model,
            features,
            generator,
            iterations=iterations,
            rate=self.config.router_rate,
            weight_decay=self.config.router_weight_decay,
        )
        with torch.no_grad():
            least = -model.error(features).quantile(self.config.reject_quantile)
        return model, least.cpu()

    def _router_features(self, images: TaskImages, generator: torch.Generator) -> Iterator[Tensor]:
        """Features of a random part of the images, small enough to be kept at once."""
        wanted = torch.zeros(len(images), dtype=torch.bool)
        wanted[torch.randperm(len(images), generator=generator)[: self.config.router_images]] = True
        start = 0
        for pixels, _ in images.batches():
            chosen = pixels[wanted[start : start + len(pixels)].to(pixels.device)]
            start += len(pixels)
            if len(chosen):
                yield self.early_features(chosen)

    def route(self, images: Images) -> Route | None:
        """The task whose autoencoder repeats an image best, unless it is badly repeated by all.

        With reference images, an image that their autoencoder repeats better belongs to no task.
        """
        if not self.tasks:
            return None
        features = self.early_features(images.pixels())
        with torch.no_grad():
            scores = -torch.stack([self._error(model, features) for model in self.autoencoders], dim=1)
            fixed = self.config.reject_threshold
            least = torch.stack(self.least) if fixed is None else torch.full((len(self.tasks),), -fixed)
            if self.reject is not None:
                least = torch.maximum(least, -self._error(self.reject, features)[:, None].cpu())
        return route_by_score(scores, least, vote=self.config.decision == "batch-vote")

    def _error(self, model: nn.Module, features: Tensor) -> Tensor:
        """The error `(B,)` of one autoencoder."""
        assert isinstance(model, Autoencoder)
        return model.error(features)

    # ----------------------------------------------------------------------------------- state, as tensors

    def shared_state(self) -> dict[str, Tensor]:
        """All experts, which of them are frozen, and the autoencoder of the reference images."""
        reject = {} if self.reject is None else _prefixed("reject.", self.reject)
        return {**_prefixed("experts.", self.experts), **reject}

    def load_shared_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the experts and the rejecting autoencoder back."""
        self.experts.load_state_dict(_part("experts.", tensors))
        if reject := _part("reject.", tensors):
            self.reject = self._stored(reject)
        self.forget_texts()

    def task_state(self, index: int) -> dict[str, Tensor]:
        """The gates of a task, its autoencoder and the least score."""
        autoencoder = _prefixed("router.", self.autoencoders[index])
        return {**self.bank[index].state_dict(), **autoencoder, "least": self.least[index]}

    def load_task(self, task: LearnedTask, tensors: Mapping[str, Tensor]) -> None:
        """Append a task from its tensors."""
        routers = {t: TaskRouter(tensors[f"{t}.gate"], tensors[f"{t}.noise"]) for t in TOWERS}
        bank = nn.ModuleDict(routers).requires_grad_(requires_grad=False)
        self.bank.append(bank.to(self.backbone.device))
        self.autoencoders.append(self._stored(_part("router.", tensors)))
        self.least.append(tensors["least"].cpu())
        self.tasks.append(task)

    def _stored(self, tensors: Mapping[str, Tensor]) -> Autoencoder:
        """An autoencoder from its tensors."""
        hidden, width = tensors["encode_weight"].shape
        model = Autoencoder(width, hidden)
        model.load_state_dict(dict(tensors))
        return model.requires_grad_(requires_grad=False).to(self.backbone.device)


def _prefixed(prefix: str, module: nn.Module) -> dict[str, Tensor]:
    """A module's tensors under a prefix."""
    return {prefix + name: tensor for name, tensor in module.state_dict().items()}


def _part(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under a prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
