"""What L2P, DualPrompt and CODA-Prompt share: prompts chosen by the image, and a linear head per class name.

The frozen image feature asks for prompts, which enter the softmax of some blocks as raw keys and values. No
text tower takes part, so a class that was never learned has no name and zero-shot questions are refused.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from dpw.clip.adaptation import Adaptation
from dpw.clip.backbone import Backbone
from dpw.data.images import Images
from dpw.data.reference import seeded
from dpw.data.task import Task
from dpw.errors import InputError
from dpw.methods.base import Method, TaskImages
from dpw.methods.candidates import Candidates
from dpw.methods.config import MethodConfig, TrainingConfig
from dpw.methods.parts.plain import PlainAnswers
from dpw.methods.parts.steps import adam_by_steps
from dpw.methods.tensors import add_prefix, strip_prefix

Prefixes = dict[int, tuple[Tensor, Tensor]]  # keys and values (B or 1, L, D) of each block that has any


class PromptPoolConfig(MethodConfig):
    """Constants that the three methods share."""

    training: TrainingConfig = adam_by_steps(1e-2)
    """How one task is trained."""
    head_std: float = Field(0.001, ge=0)
    """Deviation of a new class's head at its start."""


class LinearHead(nn.Module):
    """One row of weights and a bias for each class name that a task brought."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        """weight `(C, E)`, bias `(C,)`."""
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight.clone()), nn.Parameter(bias.clone())


class KeyValuePrompts(Adaptation):
    """Chosen prompts acting for one call."""

    def __init__(self, prefixes: Prefixes) -> None:
        """Keys and values by block."""
        self.prefixes = prefixes

    def keys_values(self, block: int, x: Tensor) -> tuple[Tensor, Tensor] | None:  # noqa: ARG002
        """What joins the keys and values of the image."""
        return self.prefixes.get(block)


class PromptPool(Method):
    """Frozen image tower with prompts, linear classifier."""

    zero_shot = False
    config: PromptPoolConfig
    shared = ("heads", "pool")

    def __init__(self, backbone: Backbone, config: PromptPoolConfig) -> None:
        """Start without classes."""
        super().__init__(backbone, config)
        self.answers = PlainAnswers(self)
        self.heads = nn.ModuleList()  # one for each task, with rows for the names it brought
        self.pool = nn.ParameterDict()  # prompts that all tasks share, drawn with the first

    @abstractmethod
    def prefixes(self, query: Tensor, task: int | None) -> tuple[Prefixes, Tensor]:
        """Prompts for queries `(B, E)` and the loss of choosing them; the task is known only in training."""

    def draw_pool(self, generator: torch.Generator) -> dict[str, Tensor]:  # noqa: ARG002
        """How shared prompts start, if the method has any."""
        return {}

    def draw_prompts(self, generator: torch.Generator) -> nn.Module:  # noqa: ARG002
        """How the prompts of a new task start, if it gets any of its own."""
        return nn.Module()

    # ------------------------------------------------------------------------------------ learning a task

    def new_module(self, task: Task, images: TaskImages) -> nn.Module:  # noqa: ARG002
        """The task's own prompts, and head rows for names that are new; rows of known names learn on."""
        generator = seeded(self.config.seed, task.name, "prompts")
        rows = self.rows()
        count = sum(index == len(self.tasks) - 1 for index, _ in rows.values())
        weight = torch.randn(count, self.backbone.feature_width, generator=generator)
        head = LinearHead(weight * self.config.head_std, torch.zeros(count))
        self.heads.append(head.to(self.backbone.device))
        for index in {rows[name][0] for name in task.classes}:
            self.heads[index].requires_grad_()
        if not self.pool:
            drawn = self.draw_pool(torch.Generator().manual_seed(self.config.seed))
            self.pool = nn.ParameterDict(drawn).to(self.backbone.device)
        self.pool.requires_grad_()
        return self.draw_prompts(generator)

    def trainable(self) -> dict[str, nn.Parameter]:
        """Heads first, then prompts: the order in which checkpoints number the optimiser's states."""
        order = ("heads", "bank", "pool")
        named = super().trainable().items()
        return dict(sorted(named, key=lambda pair: order.index(pair[0].split(".")[0])))

    def rows(self) -> dict[str, tuple[int, int]]:
        """Where each class name stands: index of the head that brought it, and row in that head."""
        found: dict[str, tuple[int, int]] = {}
        for index, task in enumerate(self.tasks):
            new = [name for name in task.classes if name not in found]
            found |= {name: (index, row) for row, name in enumerate(new)}
        return found

    def forward(self, pixels: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy over the task's classes and the loss of the prompts."""
        task = len(self.tasks) - 1
        features, prompt_loss = self._features(pixels, task)
        logits = self._classify(features, self.tasks[task].classes)
        smoothing = self.config.training.label_smoothing
        return F.cross_entropy(logits, labels, label_smoothing=smoothing) + prompt_loss

    def task_logits(self, pixels: Tensor) -> Tensor:
        """The classes being learned, with the task's own prompts."""
        task = len(self.tasks) - 1
        return self._classify(self._features(pixels, task)[0], self.tasks[task].classes)

    # ------------------------------------------------------------------------------------------ answering

    def logits(self, images: Images, candidates: Candidates) -> Tensor:
        """The linear head's rows of the candidates; a name in two groups has one row."""
        features, _ = self._features(images.pixels(), None)
        return self._classify(features, [name for _, name in candidates.classes])

    def _features(self, pixels: Tensor, task: int | None) -> tuple[Tensor, Tensor]:
        """Image features with prompts, not normalised, and the loss of the prompts."""
        if not self.tasks:
            raise InputError(f"method {self.name!r} knows no class before its first task: learn a task first")
        with torch.no_grad():
            query = self.frozen_image_features(pixels)
        prefixes, loss = self.prefixes(query, task)
        return self.backbone.encode_images(pixels, KeyValuePrompts(prefixes)), loss

    def _classify(self, features: Tensor, names: Sequence[str]) -> Tensor:
        """Logits `(B, C)` of named classes."""
        rows = self.rows()
        for name in names:
            if name not in rows:
                raise InputError(
                    f"method {self.name!r} has no text tower and never learned the class {name!r}: ask only "
                    "for learned classes, or choose a method that can name new ones"
                )
        used = sorted({rows[name][0] for name in names})
        heads = [self._head(index) for index in used]
        first = dict(zip(used, _offsets([len(head.bias) for head in heads]), strict=True))
        chosen = [first[rows[name][0]] + rows[name][1] for name in names]
        weight = torch.cat([head.weight for head in heads])[chosen]
        return features @ weight.T + torch.cat([head.bias for head in heads])[chosen]

    def _head(self, index: int) -> LinearHead:
        """The rows that one task brought."""
        found = self.heads[index]
        assert isinstance(found, LinearHead)
        return found

    # ----------------------------------------------------------------------------------- state, as tensors

    def shared_state(self) -> dict[str, Tensor]:
        """The shared prompts and all head rows: those of a name that comes back go on learning."""
        pool = {name: tensor.detach() for name, tensor in self.pool.items()}
        return add_prefix("heads.", self.heads.state_dict()) | add_prefix("pool.", pool)

    def load_shared_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take shared prompts and head rows back."""
        count = sum(name.startswith("heads.") and name.endswith(".bias") for name in tensors)
        stored = [(tensors[f"heads.{i}.weight"], tensors[f"heads.{i}.bias"]) for i in range(count)]
        self.heads = nn.ModuleList(LinearHead(*pair) for pair in stored)
        pool = strip_prefix("pool.", tensors)
        self.pool = nn.ParameterDict({name: tensor.clone() for name, tensor in pool.items()})
        for part in (self.heads, self.pool):
            part.requires_grad_(requires_grad=False).to(self.backbone.device)


def split_prompt(prompt: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values: the two halves of prompts `(..., L, D)` along their length."""
    keys, values = prompt.chunk(2, dim=-2)
    return keys, values


def _offsets(sizes: Sequence[int]) -> list[int]:
    """Where each part starts when parts of these sizes are laid end to end."""
    return [sum(sizes[:index]) for index in range(len(sizes))]
