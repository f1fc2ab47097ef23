"""CoLeCLIP: one read-only prompt token per task, and a vocabulary of class vectors in place of texts.

CLS never sees the prompts, so it stays plain CLIP's; each prompt reads the image and the earlier prompts.
The text tower is adapted only while a task is learned; what survives is one vector for every class name.
"""

from collections.abc import Mapping, Sequence

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from dpw.clip.adaptation import Adaptation, LinearName
from dpw.clip.backbone import Backbone, TowerShape
from dpw.data.images import Images
from dpw.data.task import Task
from dpw.methods.base import LearnedTask, Method, TaskImages, register
from dpw.methods.candidates import Candidates, ClassGroup
from dpw.methods.config import MethodConfig, TrainingConfig
from dpw.methods.parts.epochs import adam_by_epochs
from dpw.methods.parts.switched import plain_logits


class CoLeCLIPConfig(MethodConfig):
    """CoLeCLIP's constants."""

    training: TrainingConfig = adam_by_epochs(1e-3)
    prompt_bound: float = Field(0.01, gt=0)
    text_rank: int = Field(5, ge=1)
    memory_rate: float = Field(0.1, gt=0, le=1)
    negatives_after: float = Field(0.5, ge=0, le=1)
    negatives_quantile: float = Field(0.7, ge=0, le=1)


class TextLoRA(nn.Module):
    """A low-rank change of keys and values in every text block, thrown away when the task is learned."""

    def __init__(self, shape: TowerShape, rank: int, generator: torch.Generator) -> None:
        """Starts as no change: `up` is zero. Keys come first, values second."""
        super().__init__()
        drawn = torch.rand(shape.blocks, 2, shape.width, rank, generator=generator)
        self.down = nn.Parameter((2 * drawn - 1) * shape.width**-0.5)
        self.up = nn.Parameter(torch.zeros(shape.blocks, 2, rank, shape.width))
        self.scale = nn.Parameter(torch.ones(shape.blocks, 2))


class LoRAAdaptation(Adaptation):
    """The low-rank change acting for one call."""

    token_by_token = True

    def __init__(self, lora: TextLoRA) -> None:
        """Take the module that is being learned."""
        self.lora = lora

    def linear(self, block: int, name: LinearName, x: Tensor) -> Tensor | None:
        """A delta of the key and value maps only."""
        if name not in ("key", "value"):
            return None
        which = 0 if name == "key" else 1
        delta = x @ self.lora.down[block, which] @ self.lora.up[block, which]
        return self.lora.scale[block, which] * delta


class ReadOnlyPrompts(Adaptation):
    """Task prompts after the image tokens; they see the image and earlier prompts, nothing sees them else."""

    def __init__(self, prompts: Tensor) -> None:
        """prompts `(T, D)`, oldest first."""
        self.prompts = prompts

    def tokens(self, h: Tensor) -> Tensor:
        """Append the prompts, without positions."""
        return torch.cat([h, self.prompts.expand(len(h), -1, -1)], dim=1)

    def mask(self, h: Tensor) -> Tensor:
        """Who may look at whom."""
        count, prompts = h.shape[1], len(self.prompts)
        allowed = torch.ones(count, count, dtype=torch.bool, device=h.device)
        allowed[:-prompts, -prompts:] = False
        allowed[-prompts:, -prompts:] = allowed[-prompts:, -prompts:].tril()
        return allowed


@register()
class CoLeCLIP(Method):
    """Task prompts against class vectors that are shared by all tasks that know the name."""

    name = "coleclip"
    summary = "CoLeCLIP: a read-only prompt token per task and a vocabulary of class vectors"
    config_class = CoLeCLIPConfig
    config: CoLeCLIPConfig
    vectors: Tensor

    def __init__(self, backbone: Backbone, config: CoLeCLIPConfig) -> None:
        """Start with no prompt and an empty vocabulary."""
        super().__init__(backbone, config)
        self.prompts = nn.ParameterList()
        self.vocabulary: dict[str, Tensor] = {}
        self.lora: TextLoRA | None = None
        self.start = torch.empty(0)
        self.latest: Tensor | None = None
        self.planned_steps = 0
        self._plain: dict[ClassGroup, Tensor] = {}
        # A buffer, so that it goes back with the weights to the best epoch.
        self.register_buffer("vectors", torch.empty(0), persistent=False)

    # ------------------------------------------------------------------------------------ learning a task

    def begin_task(self, task: Task, images: TaskImages) -> None:
        """A new prompt, a fresh change of the text tower, and where the class vectors start from."""
        super().begin_task(task, images)
        generator = torch.Generator().manual_seed(self.config.seed + len(self.prompts))
        device = self.backbone.device
        drawn = torch.rand(self.backbone.image_shape.width, generator=generator)
        self.prompts.append(nn.Parameter((drawn * self.config.prompt_bound).to(device)))
        self.lora = TextLoRA(self.backbone.text_shape, self.config.text_rank, generator).to(device)
        with torch.no_grad():
            self.start = self.entries(Candidates.among(self.tasks[-1].group())).clone()
        self.vectors = self.start.clone()
        self.planned_steps = steps_of(self.config.training, task.name, len(images))

    def forward(self, pixels: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy of prompt and CLS against half-remembered class vectors, which may not drift far."""
        texts = F.normalize(self.backbone.encode_texts(self.training_tokens(), self._text_change()), dim=-1)
        classes = F.normalize((self.vectors + texts) / 2, dim=-1)
        self.latest = classes.detach()
        features, cls = self.task_features(pixels)
        scale = self.backbone.logit_scale
        losses = _halves(scale * features[:, -1] @ classes.T, scale * cls @ classes.T, labels)
        if len(self.tasks) > 1 and self.step >= self.config.negatives_after * self.planned_steps:
            losses = self._against_earlier_classes(features, cls, classes, labels, losses)
        drift: Tensor = torch.linalg.vector_norm(classes - self.start, dim=-1).mean()
        return losses.mean() + drift

    def _text_change(self) -> LoRAAdaptation:
        """The change of the text tower that is being learned."""
        assert self.lora is not None
        return LoRAAdaptation(self.lora)

    def _against_earlier_classes(
        self, features: Tensor, cls: Tensor, classes: Tensor, labels: Tensor, losses: Tensor
    ) -> Tensor:
        """Losses `(B,)` in which images that earlier classes attract must also stand against these."""
        current = self.tasks[-1].classes
        earlier = [name for name in self.vocabulary if name not in current]
        if not earlier:
            return losses
        known = torch.stack([self.vocabulary[name] for name in earlier]).to(classes)
        extended = torch.cat([classes, known])
        owners = self.owners([*current, *earlier])
        visual = self._by_owner(features, extended, owners)
        attracted = visual.argmax(dim=1) != labels
        groups = [row.nonzero().flatten() for row in owners[:-1, len(current) :]]
        hidden = hidden_negatives(
            visual.detach(),
            [len(current) + group for group in groups if len(group)],
            len(current),
            float(self.backbone.logit_scale),
            self.config.negatives_quantile,
        )
        plain = self.backbone.logit_scale * cls @ extended.T
        against = _halves(
            visual.masked_fill(hidden, -torch.inf), plain.masked_fill(hidden, -torch.inf), labels
        )
        return torch.where(attracted, against, losses)

    def after_step(self, step: int) -> None:  # noqa: ARG002
        """Let the class vectors follow slowly what the text tower says."""
        if self.latest is not None:
            rate = self.config.memory_rate
            self.vectors = F.normalize(rate * self.latest + (1 - rate) * self.vectors, dim=-1)

    def task_logits(self, pixels: Tensor) -> Tensor:
        """The newest prompt against the class vectors as they are now."""
        features, _ = self.task_features(pixels)
        return self.backbone.logit_scale * features[:, -1] @ self.vectors.T

    def end_task(self, images: TaskImages) -> None:
        """Enter the class vectors in the vocabulary and throw the change of the text tower away."""
        super().end_task(images)
        self.vocabulary |= dict(zip(self.tasks[-1].classes, self.vectors.clone().unbind(0), strict=True))
        self._put_away()

    def abandon(self, learned: int, shared: Mapping[str, Tensor]) -> None:
        """Also drop the prompt of the abandoned task; the vocabulary has not seen it yet."""
        super().abandon(learned, shared)
        self.prompts = self.prompts[:learned]
        self._put_away()

    def _put_away(self) -> None:
        """Clear what exists only while a task is learned."""
        self.lora, self.latest, self.start = None, None, torch.empty(0)
        self.vectors = torch.empty(0, device=self.backbone.device)

    def progress_state(self) -> dict[str, Tensor]:
        """The class vectors on their way."""
        return {"vectors": self.vectors}

    def load_progress_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from these class vectors."""
        self.vectors = tensors["vectors"].clone().to(self.backbone.device)

    # ------------------------------------------------------------------------------------------ answering

    def task_features(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Normalised features of every task's prompt `(B, T, E)`, each averaged with CLS, and of CLS."""
        tokens = self.backbone.image_tokens(pixels, ReadOnlyPrompts(torch.stack(list(self.prompts))))
        cls = self.backbone.project_images(tokens[:, :1])
        prompted = self.backbone.project_images(tokens[:, -len(self.prompts) :])
        return F.normalize((prompted + cls) / 2, dim=-1), F.normalize(cls[:, 0], dim=-1)

    def logits(self, images: Images, candidates: Candidates) -> Tensor:
        """Each class by the prompts of the tasks that know its name, unknown names by plain CLIP.

        The same name in two groups gets the same logit: it is one class.
        """
        if not self.tasks:
            return plain_logits(self, images, candidates)
        features, cls = self.task_features(images.pixels())
        entries = self.entries(candidates)
        owners = self.owners([name for _, name in candidates.classes])
        plain = self.backbone.logit_scale * cls @ entries.T
        return torch.where(owners.any(dim=0), self._by_owner(features, entries, owners), plain)

    def _by_owner(self, features: Tensor, entries: Tensor, owners: Tensor) -> Tensor:
        """The best logit `(B, C)` of each class over the tasks that own it, `(T, C)`; −∞ without any."""
        logits = self.backbone.logit_scale * features @ entries.T
        return logits.masked_fill(~owners, -torch.inf).amax(dim=1)

    def owners(self, names: Sequence[str]) -> Tensor:
        """Which task knows which class, `(T, C)`."""
        rows = [[name in task.classes for name in names] for task in self.tasks]
        return torch.tensor(rows, device=self.backbone.device)

    def entries(self, candidates: Candidates) -> Tensor:
        """Class vectors `(C, E)`: from the vocabulary, or plain CLIP's for names that are not in it."""
        found = []
        for group in candidates.groups:
            known = [name in self.vocabulary for name in group.classes]
            rows = None if all(known) else self._plain_entries(group)
            for index, name in enumerate(group.classes):
                vector = self.vocabulary[name] if rows is None or known[index] else rows[index]
                found.append(vector.to(self.backbone.device))
        return torch.stack(found)

    def _plain_entries(self, group: ClassGroup) -> Tensor:
        """Plain CLIP's class vectors, encoded once: they never change."""
        if group not in self._plain:
            self._plain[group] = self.frozen_text_features(group)
        return self._plain[group]

    # ----------------------------------------------------------------------------------- state, as tensors

    def task_state(self, index: int) -> dict[str, Tensor]:
        """The prompt and the vectors of the task's classes, as they are now."""
        names = self.tasks[index].classes
        return {
            "prompt": self.prompts[index].detach(),
            "vocabulary": torch.stack([self.vocabulary[name] for name in names]),
        }

    def load_task(self, task: LearnedTask, tensors: Mapping[str, Tensor]) -> None:
        """Append a task; names it shares with earlier tasks have the same vector there."""
        device = self.backbone.device
        self.prompts.append(nn.Parameter(tensors["prompt"].clone().to(device), requires_grad=False))
        self.vocabulary |= dict(zip(task.classes, tensors["vocabulary"].to(device).unbind(0), strict=True))
        self.tasks.append(task)


def hidden_negatives(
    logits: Tensor, groups: Sequence[Tensor], classes: int, scale: float, quantile: float
) -> Tensor:
    """Which of the earlier classes an image is not trained against, `(B, C)`.

    logits hold the `classes` of the task being learned first; `groups` are the columns of each earlier task.
    A task's classes are hidden from images whose energy does not clearly speak against that task.
    """
    hidden = torch.zeros_like(logits, dtype=torch.bool)
    energy = logits[:, :classes].logsumexp(dim=1) / scale
    for columns in groups:
        gap = energy - logits[:, columns].logsumexp(dim=1) / scale
        margin = gap.quantile(quantile).clamp(min=0)
        hidden[:, columns] |= (gap <= margin)[:, None]
    return hidden


def steps_of(training: TrainingConfig, task: str, images: int) -> int:
    """How many steps the settings plan for a task of so many images."""
    if training.iterations is not None:
        return training.iterations
    epochs = training.task_epochs.get(task, training.epochs or 1)
    whole, rest = divmod(images, training.batch_size)
    return epochs * max(whole + (1 if rest and not training.drop_last else 0), 1)


def _halves(visual: Tensor, plain: Tensor, labels: Tensor) -> Tensor:
    """The mean of two cross-entropies for every image `(B,)`."""
    both = [F.cross_entropy(logits, labels, reduction="none") for logits in (visual, plain)]
    return 0.5 * (both[0] + both[1])
