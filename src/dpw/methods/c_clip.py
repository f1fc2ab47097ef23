"""C-CLIP: low-rank updates of both towers, merged after every task, and contrastive consolidation."""

import math
from operator import attrgetter
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from dpw.clip.adaptation import Adaptation, LinearName
from dpw.clip.backbone import Backbone
from dpw.data.reference import seeded
from dpw.data.task import Task
from dpw.methods.base import TaskImages
from dpw.methods.config import TrainingConfig
from dpw.methods.finetune import FineTune, FineTuneConfig
from dpw.methods.parts.losses import symmetric_cross_entropy
from dpw.methods.registry import register

ADAPTED: dict[LinearName, str] = {
    "query": "self_attn.q_proj",
    "value": "self_attn.v_proj",
    "out": "self_attn.out_proj",
    "fc1": "mlp.fc1",
    "fc2": "mlp.fc2",
}


class CCLIPConfig(FineTuneConfig):
    """C-CLIP's constants, as far as its re-implementations agree."""

    training: TrainingConfig = TrainingConfig(
        optimizer="adamw",
        learning_rate=1e-5,
        betas=(0.9, 0.99),
        weight_decay=0.2,
        batch_size=256,
        epochs=40,
        schedule="warmup-cosine",
        warmup=100,
        final_factor=0.0,
        drop_last=False,
        select="last",
    )
    """How one task is trained."""
    text_rate_factor: float = Field(10.0, gt=0)
    """Rate of the text tower's updates, as a multiple."""
    rank: int = Field(16, ge=1)
    """Rank of the low-rank updates."""
    alpha: float = Field(32.0, gt=0)
    """The low-rank updates count alpha / rank."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout before the low-rank updates, in training."""
    merge: float = Field(0.5, ge=0, le=1)
    """Share of an update that is merged after its task."""
    learn_temperature: bool = True
    """Also learn CLIP's logit scale."""
    consolidation: float = Field(1.0, ge=0)
    """Weight of contrastive consolidation."""
    consolidation_temperature: float = Field(0.07, gt=0)
    """Temperature of contrastive consolidation."""


class LowRank(nn.ParameterDict):
    """Low-rank updates of every block of a tower: `name_down` `(K, r, in)`, `name_up` `(K, out, r)` zero."""

    def __init__(self, blocks: Any, rank: int, generator: torch.Generator) -> None:
        """Take the sizes from the tower's blocks."""
        super().__init__()
        for name, module in ADAPTED.items():
            rows, columns = attrgetter(module)(blocks[0]).weight.shape
            down = (2 * torch.rand(len(blocks), rank, columns, generator=generator) - 1) / math.sqrt(columns)
            self[f"{name}_down"] = nn.Parameter(down)
            self[f"{name}_up"] = nn.Parameter(torch.zeros(len(blocks), rows, rank))


class LowRankAdaptation(Adaptation):
    """The updates acting in one tower for one call."""

    def __init__(self, updates: LowRank, scale: float, dropout: float) -> None:
        """`dropout` is 0 outside training."""
        self.maps = {n: (updates[f"{n}_down"].unbind(0), updates[f"{n}_up"].unbind(0)) for n in ADAPTED}
        self.scale, self.dropout = scale, dropout

    def linear(self, block: int, name: LinearName, x: Tensor) -> Tensor | None:
        """scale · up(down(x)) for the maps that are updated."""
        if name not in self.maps:
            return None
        down, up = (maps[block] for maps in self.maps[name])
        x = F.dropout(x, self.dropout) if self.dropout else x
        return F.linear(F.linear(x, down), up * self.scale)


@register(
    mini={
        "training.learning_rate": 1e-2,
        "text_rate_factor": 1.0,
        "training.batch_size": 32,
        "training.epochs": 3,
        "training.warmup": 3,
        "rank": 8,
        "alpha": 16.0,
    }
)
class CCLIP(FineTune):
    """Low-rank updates over the merged model of all earlier tasks; after a task half of the update is merged.

    The updates have rank 16 and act on query, value and output projection and both MLP layers, in both
    towers. The loss is CLIP's contrastive loss with class prompts as captions, images of one class sharing
    their caption, plus contrastive consolidation: the projected features of image and caption, side by side,
    must find the old model's among those of the batch. **Built from re-implementations; the authors' code was
    not available** and these differ among themselves: here old and new features are joined along the width,
    the projector is new for every task, warm-up is 100 steps, the learning rate is 1e-5 for images and ten
    times that for texts. The paper's tables have no row for it.
    """

    name = "c-clip"
    summary = "C-CLIP: merged low-rank updates with contrastive knowledge consolidation"
    status = "from re-implementations: the authors' code was not available"
    config_class = CCLIPConfig
    config: CCLIPConfig
    temporary = (*FineTune.temporary, "updates", "projector")

    def __init__(self, backbone: Backbone, config: CCLIPConfig) -> None:
        """Start as plain CLIP."""
        super().__init__(backbone, config)
        self.updates: nn.ModuleDict | None = None
        self.projector: nn.Sequential | None = None

    # ------------------------------------------------------------------------------------ learning a task

    def begin_task(self, task: Task, images: TaskImages) -> None:
        """Fresh updates and a fresh projector over the merged, frozen model."""
        super().begin_task(task, images)
        clip = self.model.clip.requires_grad_(requires_grad=False)
        clip.logit_scale.requires_grad = self.config.learn_temperature
        generator = seeded(self.config.seed, task.name, "updates")
        updates = {name: LowRank(blocks, self.config.rank, generator) for name, blocks in self._towers()}
        self.updates = nn.ModuleDict(updates).to(self.backbone.device)
        self.projector = new_projector(self.backbone.feature_width, generator).to(self.backbone.device)

    def _towers(self) -> list[tuple[str, Any]]:
        """The blocks of both towers of the merged model."""
        return [("image", self.model.blocks("vision")), ("text", self.model.blocks("text"))]

    def adaptation(self, tower: str) -> LowRankAdaptation | None:
        """The updates being learned, or None when all are merged."""
        if self.updates is None:
            return None
        scale = self.config.alpha / self.config.rank
        updates: Any = self.updates[tower]
        return LowRankAdaptation(updates, scale, self.config.dropout if self.training else 0.0)

    def task_logits(self, pixels: Tensor) -> Tensor:
        """The updated model over the classes being learned."""
        images = self.model.encode_images(pixels, self.adaptation("image"))
        texts = self.model.encode_texts(self.training_tokens(), self.adaptation("text"))
        return self.model.logit_scale * F.normalize(images, dim=-1) @ F.normalize(texts, dim=-1).T

    def forward(self, pixels: Tensor, labels: Tensor) -> Tensor:
        """CLIP's contrastive loss on images and captions, plus the consolidation of what was known."""
        present, caption = torch.unique(labels, return_inverse=True)
        tokens = self.training_tokens()[present]
        images = F.normalize(self.model.encode_images(pixels, self.adaptation("image")), dim=-1)
        texts = F.normalize(self.model.encode_texts(tokens, self.adaptation("text")), dim=-1)[caption]
        with torch.no_grad():
            old_images = F.normalize(self.model.encode_images(pixels), dim=-1)
            old_texts = F.normalize(self.model.encode_texts(tokens), dim=-1)[caption]
        same = (labels[:, None] == labels[None]).to(images)
        target = same / same.sum(dim=1, keepdim=True)
        contrast = symmetric_cross_entropy(self.model.logit_scale * images @ texts.T, target) / 2
        kept = self.consolidation(images, texts, torch.cat([old_images, old_texts], dim=1))
        return contrast + self.config.consolidation * kept

    def consolidation(self, images: Tensor, texts: Tensor, old: Tensor) -> Tensor:
        """Each projected pair must find its own old pair among those of the batch, and the reverse."""
        assert self.projector is not None
        projected = self.projector(torch.cat([images, texts]))
        new = F.normalize(torch.cat(projected.chunk(2), dim=1), dim=-1)
        similarity = new @ F.normalize(old, dim=-1).T / self.config.consolidation_temperature
        return symmetric_cross_entropy(similarity, torch.eye(len(new)).to(new)) / 2

    def after_step(self, step: int) -> None:  # noqa: ARG002
        """Keep the temperature within CLIP's own bound; families trained by sigmoids have none."""
        if not self.model.family.sigmoid:
            with torch.no_grad():
                self.model.clip.logit_scale.clamp_(max=math.log(100))

    def learning_rate_factor(self, parameter: str) -> float:
        """The text tower learns faster."""
        return self.config.text_rate_factor if parameter.startswith("updates.text.") else 1.0

    @torch.no_grad()
    def end_task(self, images: TaskImages) -> None:
        """Merge part of the updates into the model: W ← W + 0.5 · ΔW."""
        assert self.updates is not None
        factor = self.config.merge * self.config.alpha / self.config.rank
        for tower, blocks in self._towers():
            updates: Any = self.updates[tower]
            for index, block in enumerate(blocks):
                for name, module in ADAPTED.items():
                    delta = updates[f"{name}_up"][index] @ updates[f"{name}_down"][index]
                    attrgetter(module)(block).weight.add_(delta, alpha=factor)
        super().end_task(images)

    def parameter_count(self) -> int:
        """The low-rank updates of all tasks; once merged they take no room of their own."""
        blocks = [block for _, blocks in self._towers() for block in blocks]
        shapes = [attrgetter(module)(b).weight.shape for b in blocks for module in ADAPTED.values()]
        return len(self.tasks) * self.config.rank * sum(sum(shape) for shape in shapes)


def new_projector(width: int, generator: torch.Generator) -> nn.Sequential:
    """Two linear layers with a batch norm between them, without running statistics: it is for training."""
    layers = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
    for layer in layers:
        nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5), generator=generator)
        nn.init.zeros_(layer.bias)
    norm = nn.BatchNorm1d(2 * width, track_running_stats=False)
    return nn.Sequential(layers[0], norm, nn.ReLU(), layers[1])
