"""MoE-Adapters: experts beside every MLP, gates per task, and autoencoders that tell the task."""

from collections.abc import Mapping
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from dpw.clip.backbone import Backbone, TowerShape
from dpw.data.images import Images
from dpw.data.reference import OWN_IMAGES, reference_images
from dpw.data.split import Split
from dpw.data.task import Task
from dpw.errors import InputError
from dpw.methods.base import Method, TaskImages, ensemble
from dpw.methods.candidates import ClassGroup
from dpw.methods.config import TrainingConfig
from dpw.methods.parts.mixture import Count, Experts, MixtureAdaptation, TaskRouter
from dpw.methods.parts.switched import SwitchedAnswers
from dpw.methods.registry import register
from dpw.methods.routing.autoencoder import Autoencoder
from dpw.methods.routing.autoencoders import (
    AutoencoderConfig,
    AutoencoderRouter,
    TaskAutoencoder,
    stored_autoencoder,
)
from dpw.methods.routing.route import Route
from dpw.methods.tensors import add_prefix, strip_prefix

TASK_RATES = {"aircraft": 5e-3, "cifar100": 5e-3, "eurosat": 1e-4, "mnist": 1e-4}
FEW_SHOT_RATES = {
    "aircraft": 8e-3,
    "caltech101": 5e-4,
    "cifar100": 2e-4,
    "dtd": 5e-3,
    "eurosat": 1e-3,
    "flowers": 1e-3,
    "food": 1e-2,
    "mnist": 1e-4,
    "oxfordpet": 1e-2,
    "stanfordcars": 1e-2,
    "sun397": 1e-2,
}
# The public code's five-shot setting.
FEW_SHOT: dict[str, Any] = {
    "training.iterations": 500,
    "training.task_learning_rates": FEW_SHOT_RATES,
    "router_rate": 0.003,
}
TOWERS = ("image", "text")


class MoEAdaptersConfig(AutoencoderConfig):
    """MoE-Adapters' constants; those of its task router are in `AutoencoderConfig`."""

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
        drop_last=False,
        select="last",
    )
    """How one task is trained."""
    experts: int = Field(22, ge=1)
    """Experts in every block."""
    active_experts: int = Field(2, ge=1)
    """Experts that a sample uses, and that are frozen after a task."""
    expert_rank: int = Field(64, ge=1)
    """Rank of an expert."""
    expert_scale: float = 0.1
    """Factor of the experts' output."""
    expert_dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout inside an expert, in training."""
    noise_floor: float = Field(0.01, ge=0)
    """Least deviation of the noise on the gates, in training."""


MINI: dict[str, Any] = {
    "training.learning_rate": 3e-2,
    "training.batch_size": 32,
    "training.iterations": 48,
    "training.warmup": 4,
    "experts": 16,
    "expert_rank": 16,
    "router_iterations": 150,
    "reference_iterations": 300,
}


@register(official={"decision": "batch-vote"}, mini=MINI, **{"few-shot": FEW_SHOT})
class MoEAdapters(Method):
    """Experts that tasks share and freeze, chosen by the gates of the task that repeats an image best.

    CLIP is frozen. Every block of both towers has 22 small adapters ("experts", rank 64, starting at zero)
    beside its MLP, shared by all tasks. Each task learns gates: the first token of an image (CLS) or prompt
    (start of text) chooses two experts, whose weighted sum is added to all tokens. In training the choice
    is noisy. After a task, the two experts it chose most in each block are frozen for ever; the others
    learn on, so an earlier task may still change through experts it shares.

    Which task's gates an image gets is told by autoencoders, one per task: the one that repeats the image
    best wins. The public code feeds them with the features of an ImageNet AlexNet. We use the patch tokens
    after block 3 of the frozen CLIP (`router_blocks`), averaged on a 7 × 7 grid (`router_grid`) and
    squashed by a sigmoid, so no second network is needed. An image goes to plain CLIP in two cases:

    - the winning task repeats it worse than almost all of its own images. The public threshold, 0.0655,
      belongs to AlexNet's features, so by default each task finds its own: it keeps every fifth image apart
      and rejects what is worse than 99 % of these (`reject_quantile`). Where a batch votes, its mean error
      is compared with what 99 % of the mean errors of single classes would be, because test images often
      come class by class. `reject_threshold=0.06` sets one number for all.
    - an autoencoder of reference images repeats it better. The public code uses TinyImageNet; give
      `reference_images=FOLDER`. **Without reference images this autoencoder does not exist, and only the
      threshold rejects**, which single images of another domain often pass; a run says so at its start.

    The decision is made for each image; the preset `official` decides for a whole batch by its mean error,
    as the public code does. The preset `few-shot` has the public five-shot settings. Class-incrementally,
    all learned classes are encoded with the gates of the chosen task. The public class-incremental variant
    for CIFAR100 and TinyImageNet (two experts, one router, no autoencoders) is not included.

    An autoencoder is trained on at most 2048 images (`router_images`), which are kept in memory. On
    ViT-B/16 the experts have 43 625 472 parameters and the gates 675 840 a task, as published.
    """

    name = "moe-adapters"
    summary = "MoE-Adapters: 22 shared adapters a block, two per sample, autoencoders as router (CVPR 2024)"
    status = "from the paper and its code; task router on CLIP's early features instead of AlexNet's"
    config_class = MoEAdaptersConfig
    config: MoEAdaptersConfig
    routes = True
    shared = ("experts", "reject")
    temporary = ("counts",)

    def __init__(self, backbone: Backbone, config: MoEAdaptersConfig) -> None:
        """Start without experts; they come with the first task."""
        super().__init__(backbone, config)
        self.experts = nn.ModuleDict()
        self.reject: Autoencoder | None = None  # of reference images, which belong to no task
        self.router = AutoencoderRouter(config, self._autoencoders, lambda: self.reject)
        self.counts: dict[str, Tensor] | None = None
        self.answers = SwitchedAnswers(self, self.image_adaptation, self.encode_group, self._best_repeated)

    def _shape(self, tower: str) -> TowerShape:
        """Size of one tower."""
        return self.backbone.image_shape if tower == "image" else self.backbone.text_shape

    def _autoencoders(self) -> list[TaskAutoencoder]:
        """The autoencoders of all tasks."""
        bank: Any = self.bank
        return [module["router"] for module in bank]

    # ------------------------------------------------------------------------------------ learning a task

    def begin_task(self, task: Task, images: TaskImages) -> None:
        """Free the experts nobody relies on; the task's gates and autoencoder come with its module."""
        super().begin_task(task, images)
        self.counts = {}
        for tower in TOWERS:
            self._experts(tower).unfreeze_the_rest()
            blocks = self._shape(tower).blocks
            self.counts[tower] = torch.zeros(blocks, self.config.experts, dtype=torch.long)

    def new_module(self, task: Task, images: TaskImages) -> nn.ModuleDict:
        """The task's autoencoder, and gates that start at zero; with the first task also the experts."""
        if self.reject is None and (reference := self._reference(task)) is not None:
            self.reject = self.router.fit_reference(self.backbone, reference, self.pixel_cache)
        autoencoder = self.router.fit(self.backbone, images, task.name)
        if not self.experts:
            self.experts = self.new_experts()
        return nn.ModuleDict({**self.new_gates(), "router": autoencoder})

    def new_experts(self) -> nn.ModuleDict:
        """The experts of both towers, all adding nothing."""
        generator = torch.Generator().manual_seed(self.config.seed)
        size = self.config.experts, self.config.expert_rank
        towers = {tower: Experts(self._shape(tower), *size, generator) for tower in TOWERS}
        return nn.ModuleDict(towers).requires_grad_(requires_grad=False).to(self.backbone.device)

    def new_gates(self) -> dict[str, TaskRouter]:
        """Gates of a task for both towers, all zero."""
        gates = {}
        for tower in TOWERS:
            shape = self._shape(tower)
            zeros = torch.zeros(shape.blocks, shape.width, self.config.experts)
            gates[tower] = TaskRouter(zeros, zeros)
        return gates

    def end_task(self, images: TaskImages) -> None:
        """Freeze for ever the experts this task chose most."""
        for tower, counts in (self.counts or {}).items():
            self._experts(tower).freeze_most_used(counts, self.config.active_experts)
        super().end_task(images)

    def restore(self, snapshot: Mapping[str, Tensor]) -> None:
        """Go back to a snapshot; an autoencoder is fitted when its task begins and keeps its threshold."""
        super().restore({name: tensor for name, tensor in snapshot.items() if ".router." not in name})

    def progress_state(self) -> dict[str, Tensor]:
        """How often each expert was chosen so far."""
        return dict(self.counts or {})

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
        router = self.bank[index][tower]
        assert isinstance(router, TaskRouter)
        return MixtureAdaptation(
            self._experts(tower),
            router,
            top=self.config.active_experts,
            scale=self.config.expert_scale,
            dropout=self.config.expert_dropout if self.training else 0.0,
            noise_floor=self.config.noise_floor,
            count=self._counting(tower) if self.training else None,
            first_chooses=self._first_token(tower),
        )

    def _first_token(self, tower: str) -> bool:
        """Whether a tower has a first token that stands for the whole image or prompt."""
        family = self.backbone.family
        return (family.images.class_tokens if tower == "image" else family.texts.starts) > 0

    def _counting(self, tower: str) -> Count:
        """Adds the experts of a batch to the task's counts."""

        def count(block: int, chosen: Tensor) -> None:
            """Add one batch."""
            found = torch.bincount(chosen.detach().flatten().cpu(), minlength=self.config.experts)
            assert self.counts is not None
            self.counts[tower][block] += found

        return count

    def _experts(self, tower: str) -> Experts:
        """The experts of one tower."""
        found = self.experts[tower]
        assert isinstance(found, Experts)
        return found

    # --------------------------------------------------------------------------------- telling the task

    def notices(self) -> list[str]:
        """Say that only a threshold rejects where nobody gave reference images."""
        if self.config.reference_images is not None or self.reference.images is not None:
            return []
        return [
            f"{self.name} has no reference images, so only its threshold sends images to plain CLIP; the "
            "public code also compares with Tiny-ImageNet: give --set reference_images=FOLDER"
        ]

    def _reference(self, task: Task) -> Split | None:
        """Images that stand for "none of the tasks", if any are configured or given."""
        setting = self.config.reference_images
        if setting == OWN_IMAGES:
            raise InputError(
                f"reference_images={OWN_IMAGES} would reject the task's own images: give a folder of other "
                "images, or leave the setting out"
            )
        if setting is None and self.reference.images is None:
            return None
        return reference_images(setting, self.reference, task, self.name)

    def _best_repeated(self, images: Images) -> Route:
        """The task whose autoencoder repeats an image best, or none."""

        def early(batch: Images) -> Tensor:
            """What the autoencoders look at."""
            return self.router.early_features(self.backbone, batch.pixels())

        return self.router.route(images.once("early features", early))

    # ----------------------------------------------------------------------------------- state, as tensors

    def shared_state(self) -> dict[str, Tensor]:
        """All experts, which of them are frozen, and the autoencoder of the reference images."""
        reject = {} if self.reject is None else add_prefix("reject.", self.reject.state_dict())
        return {**add_prefix("experts.", self.experts.state_dict()), **reject}

    def load_shared_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the experts and the rejecting autoencoder back."""
        if experts := strip_prefix("experts.", tensors):
            self.experts = self.experts or self.new_experts()
            self.experts.load_state_dict(experts)
        reject = strip_prefix("reject.", tensors)
        self.reject = stored_autoencoder(reject, Autoencoder).to(self.backbone.device) if reject else None
        self.clear_features()

    def stored_module(self, tensors: Mapping[str, Tensor]) -> nn.ModuleDict:
        """Gates and autoencoder with the shapes of stored tensors."""
        gates = {t: TaskRouter(tensors[f"{t}.gate"], tensors[f"{t}.noise"]) for t in TOWERS}
        autoencoder = stored_autoencoder(strip_prefix("router.", tensors), TaskAutoencoder)
        return nn.ModuleDict({**gates, "router": autoencoder})
