"""CoLeCLIP: one read-only prompt token per task, and a vocabulary of class vectors in place of texts.

CLS never sees the prompts, so it stays plain CLIP's; each prompt reads the image and the earlier prompts.
The text tower is adapted only while a task is learned; what survives is one vector for every class name.
"""

import re
from collections.abc import Mapping, Sequence

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from dpw.clip.adaptation import Adaptation, LinearName
from dpw.clip.backbone import Backbone, TowerShape
from dpw.data.images import Images
from dpw.data.reference import seeded
from dpw.data.task import Task
from dpw.methods.base import Method, TaskImages
from dpw.methods.candidates import Candidates, ClassGroup
from dpw.methods.config import MethodConfig, TrainingConfig
from dpw.methods.parts.plain import PlainAnswers, plain_logits
from dpw.methods.parts.steps import MINI_PASSES, adam_by_steps
from dpw.methods.registry import register


class CoLeCLIPConfig(MethodConfig):
    """CoLeCLIP's constants."""

    training: TrainingConfig = adam_by_steps(1e-3)
    """How one task is trained."""
    prompt_bound: float = Field(0.01, gt=0)
    """Task prompts start uniformly between minus and plus this."""
    text_rank: int = Field(5, ge=1)
    """Rank of the text tower's low-rank update."""
    memory_rate: float = Field(0.1, gt=0, le=1)
    """Step of the running mean of class features."""
    negatives_after: float = Field(0.5, ge=0, le=1)
    """Share of the training after which other tasks' classes are negatives."""
    negatives_quantile: float = Field(0.7, ge=0, le=1)
    """Negatives more similar than this quantile are left out."""


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


class TaskPrompt(nn.Module):
    """What one task leaves behind: its prompt token and the vectors of its classes."""

    vocabulary: Tensor

    def __init__(self, prompt: Tensor, vocabulary: Tensor) -> None:
        """prompt `(D,)`, vocabulary `(C, E)`."""
        super().__init__()
        self.prompt = nn.Parameter(prompt.clone())
        self.register_buffer("vocabulary", vocabulary.clone())


@register(mini=MINI_PASSES | {"training.learning_rate": 0.01})
class CoLeCLIP(Method):
    """Task prompts against class vectors that are shared by all tasks that know the name.

    CLIP is frozen. Each task learns one token that is put behind the image's tokens. It reads the image and
    the tokens of earlier tasks, but no image token sees it, so CLS stays exactly that of plain CLIP. A
    low-rank change of the text tower's keys and values is learned with it and thrown away afterwards; what
    survives is a vocabulary with one vector for each class name, which follows the changed text features
    slowly while a task is learned. A class is scored by the tokens of the tasks that know its name, an
    unknown name by plain CLIP. Nothing has to find out which task an image belongs to. The same name in two
    tasks is one class with one vector and one logit. In the second half of training, classes of earlier
    tasks join the loss of images that are still mistaken, unless the image may well belong to such a task;
    from then on every class is scored by the best of the tasks that know its name, as in answers.

    A task is trained for 500 steps of 128 images, which is what the public table of epochs comes to under its
    own protocol.

    What we decided: a class starts from the templates of its own task only (the public code joins the
    templates of all datasets that share a name, which needs knowledge of the future). A class of several
    earlier tasks is left out as soon as one of them asks for it. The count of learned parameters is the
    tokens' (768 a task on ViT-B/16); the vocabulary (512 numbers a class) is stored, not counted. A task
    cannot be forgotten alone, because later tokens read earlier ones.

    While a task is learned, `vectors` are its class vectors on their way, `initial_vectors` where they
    started, and `lora` the change of the text tower. A name that two tasks know has the vector of the later.
    """

    name = "coleclip"
    summary = "CoLeCLIP: a read-only prompt token per task and a vocabulary of class vectors"
    config_class = CoLeCLIPConfig
    config: CoLeCLIPConfig
    vectors: Tensor
    temporary = ("lora", "latest", "initial_vectors")

    def __init__(self, backbone: Backbone, config: CoLeCLIPConfig) -> None:
        """Start with no prompt and an empty vocabulary."""
        super().__init__(backbone, config)
        self.answers = PlainAnswers(self)  # for names that no task knows
        self.lora: TextLoRA | None = None
        self.initial_vectors: Tensor | None = None
        self.latest: Tensor | None = None
        self._plain: dict[ClassGroup, Tensor] = {}
        # A buffer, so that it goes back with the weights to the best epoch.
        self.register_buffer("vectors", torch.empty(0), persistent=False)

    # ------------------------------------------------------------------------------------ learning a task

    def begin_task(self, task: Task, images: TaskImages) -> None:
        """A fresh change of the text tower, and where the class vectors start from."""
        super().begin_task(task, images)
        self.vectors = self._module(-1).vocabulary.clone()
        self.initial_vectors = self.vectors.clone()

    def new_module(self, task: Task, images: TaskImages) -> TaskPrompt:  # noqa: ARG002
        """A new prompt; the classes start from the vectors they have, or from plain CLIP's."""
        generator = seeded(self.config.seed, task.name, "prompt")
        drawn = torch.rand(self.backbone.image_shape.width, generator=generator)
        lora = TextLoRA(self.backbone.text_shape, self.config.text_rank, generator)
        self.lora = lora.to(self.backbone.device)
        with torch.no_grad():
            vectors = self.entries(Candidates.among(self.tasks[-1].group()))
        return TaskPrompt(drawn * self.config.prompt_bound, vectors)

    def stored_module(self, tensors: Mapping[str, Tensor]) -> TaskPrompt:
        """Prompt and vectors with the shapes of stored tensors."""
        return TaskPrompt(tensors["prompt"], tensors["vocabulary"])

    def _module(self, index: int) -> TaskPrompt:
        """What one task left behind."""
        found = self.bank[index]
        assert isinstance(found, TaskPrompt)
        return found

    @property
    def vocabulary(self) -> dict[str, Tensor]:
        """The vector of every learned class name; of equal names that of the later task counts."""
        learned = len(self.tasks) - (self.lora is not None)  # a task being learned has no vectors yet
        found: dict[str, Tensor] = {}
        for index in range(learned):
            vectors = self._module(index).vocabulary.unbind(0)
            found |= dict(zip(self.tasks[index].classes, vectors, strict=True))
        return found

    def forward(self, pixels: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy of prompt and CLS against half-remembered class vectors, which may not drift far."""
        texts = F.normalize(self.backbone.encode_texts(self.training_tokens(), self._text_change()), dim=-1)
        classes = F.normalize((self.vectors + texts) / 2, dim=-1)
        assert self.initial_vectors is not None
        self.latest = classes.detach()
        features, cls = self.task_features(pixels)
        scale = self.backbone.logit_scale
        if len(self.tasks) > 1 and self.step >= self.config.negatives_after * self.planned_steps:
            losses = self._against_earlier_classes(features, cls, classes, labels)
        else:
            losses = _halves(scale * features[:, -1] @ classes.T, scale * cls @ classes.T, labels)
        drift: Tensor = torch.linalg.vector_norm(classes - self.initial_vectors, dim=-1).mean()
        return losses.mean() + drift

    def _text_change(self) -> LoRAAdaptation:
        """The change of the text tower that is being learned."""
        assert self.lora is not None
        return LoRAAdaptation(self.lora)

    def _against_earlier_classes(
        self, features: Tensor, cls: Tensor, classes: Tensor, labels: Tensor
    ) -> Tensor:
        """Losses `(B,)` in which images that earlier classes attract must also stand against these."""
        current, vocabulary = self.tasks[-1].classes, self.vocabulary
        earlier = [name for name in vocabulary if name not in current]
        known = [vocabulary[name][None].to(classes) for name in earlier]
        extended = torch.cat([classes, *known])
        owners = self.owners([*current, *earlier])
        # Also an image that no earlier class attracts is scored by the best owner of each name.
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
        own = _halves(visual[:, : len(current)], plain[:, : len(current)], labels)
        return torch.where(attracted, against, own)

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
        self._module(-1).vocabulary = self.vectors.clone()
        new = dict(zip(self.tasks[-1].classes, self.vectors.clone().unbind(0), strict=True))
        for index, task in enumerate(self.tasks):
            for row, name in enumerate(task.classes):
                if name in new:
                    self._module(index).vocabulary[row] = new[name]
        super().end_task(images)
        self.vectors = torch.empty(0, device=self.backbone.device)

    def restore(self, snapshot: Mapping[str, Tensor]) -> None:
        """Go back to a snapshot; checkpoints of earlier versions call a task's prompt `prompts.N`."""
        former = re.compile(r"prompts\.(\d+)")
        super().restore({former.sub(r"bank.\1.prompt", name): tensor for name, tensor in snapshot.items()})

    def progress_state(self) -> dict[str, Tensor]:
        """The class vectors on their way."""
        return {"vectors": self.vectors}

    def load_progress_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from these class vectors."""
        self.vectors = tensors["vectors"].clone().to(self.backbone.device)

    # ------------------------------------------------------------------------------------------ answering

    def task_features(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Normalised features of every task's prompt `(B, T, E)`, each averaged with CLS, and of CLS."""
        prompts = torch.stack([self._module(index).prompt for index in range(len(self.bank))])
        tokens = self.backbone.image_tokens(pixels, ReadOnlyPrompts(prompts))
        cls = self.backbone.pool_images(tokens)
        prompted = self.backbone.project_images(tokens[:, -len(prompts) :])
        return F.normalize((prompted + cls[:, None]) / 2, dim=-1), F.normalize(cls, dim=-1)

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
        found, vocabulary = [], self.vocabulary
        for group in candidates.groups:
            known = [name in vocabulary for name in group.classes]
            rows = None if all(known) else self._plain_entries(group)
            for index, name in enumerate(group.classes):
                vector = vocabulary[name] if rows is None or known[index] else rows[index]
                found.append(vector.to(self.backbone.device))
        return torch.stack(found)

    def _plain_entries(self, group: ClassGroup) -> Tensor:
        """Plain CLIP's class vectors, encoded once: they never change."""
        if group not in self._plain:
            self._plain[group] = self.frozen_text_features(group)
        return self._plain[group]


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


def _halves(visual: Tensor, plain: Tensor, labels: Tensor) -> Tensor:
    """The mean of two cross-entropies for every image `(B,)`."""
    both = [F.cross_entropy(logits, labels, reduction="none") for logits in (visual, plain)]
    return 0.5 * (both[0] + both[1])
