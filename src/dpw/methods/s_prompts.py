"""S-Prompts (S-liPrompts): each domain learns its own prompts for both towers, chosen by k-means."""

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor, nn

from dpw.clip.adaptation import Adaptation
from dpw.clip.backbone import Backbone
from dpw.data.images import Images
from dpw.data.task import Task
from dpw.methods.base import LearnedTask, TaskImages, ensemble, register
from dpw.methods.candidates import ClassGroup
from dpw.methods.config import RoutedConfig, TrainingConfig
from dpw.methods.parts.switched import SwitchedMethod
from dpw.methods.routing.gaussian import Route
from dpw.methods.routing.routers import KMeansRouter, kmeans

PLACEHOLDER = "x"  # one token in CLIP's vocabulary; its embedding is replaced


class SPromptsConfig(RoutedConfig):
    """S-liPrompts' constants; the paper trains 20 to 50 epochs, depending on the data."""

    training: TrainingConfig = TrainingConfig(
        learning_rate=0.01,
        momentum=0.9,
        weight_decay=2e-4,
        batch_size=128,
        epochs=20,
        final_factor=0.0,
        drop_last=False,
        select="last",
    )
    image_tokens: int = Field(10, ge=1)
    context_length: int = Field(16, ge=1)
    context_std: float = Field(0.02, gt=0)
    centres: int = Field(5, ge=1)


class Prompts(nn.Module):
    """What one task learns: tokens beside the image patches and a context before every class name."""

    def __init__(self, image: Tensor, context: Tensor) -> None:
        """image `(M, D)`, context `(L, D of the text tower)`."""
        super().__init__()
        self.image, self.context = nn.Parameter(image.clone()), nn.Parameter(context.clone())


class ExtraTokens(Adaptation):
    """Learned tokens at the end of the image's sequence; without positions their place does not matter."""

    def __init__(self, tokens: Tensor) -> None:
        """tokens `(M, D)`, the same for every image."""
        self.extra = tokens

    def tokens(self, h: Tensor) -> Tensor:
        """Append the tokens."""
        return torch.cat([h, self.extra.expand(len(h), -1, -1)], dim=1)


class Context(Adaptation):
    """Learned embeddings in place of the placeholders that follow the start token of a prompt."""

    def __init__(self, context: Tensor) -> None:
        """context `(L, D)` for all prompts, or `(C, L, D)`."""
        self.context = context

    def tokens(self, h: Tensor) -> Tensor:
        """Replace the placeholders."""
        length = self.context.shape[-2]
        return torch.cat([h[:, :1], self.context.expand(len(h), -1, -1), h[:, 1 + length :]], dim=1)


@register()
class SPrompts(SwitchedMethod):
    """Independent prompts per domain, the domain being that of the nearest centre."""

    name = "s-prompts"
    summary = "S-Prompts: image tokens and a text context per task, chosen by k-means (NeurIPS 2022)"
    config_class = SPromptsConfig
    config: SPromptsConfig
    isolated = True
    own_classes_only = True

    def __init__(self, backbone: Backbone, config: SPromptsConfig) -> None:
        """Start with a router that knows no task."""
        super().__init__(backbone, config)
        self.router = KMeansRouter()

    def begin_task(self, task: Task, images: TaskImages) -> None:
        """Find the task's centres and draw its prompts."""
        super().begin_task(task, images)
        generator = torch.Generator().manual_seed(self.config.seed + len(self.bank))
        features, _ = self.collect_features(images)
        self.router.add(kmeans(features, self.config.centres, generator))
        width = self.backbone.image_shape.width
        # The public code keeps the tokens as the weight of a linear layer, and so they start.
        image = (2 * torch.rand(self.config.image_tokens, width, generator=generator) - 1) * width**-0.5
        size = (self.config.context_length, self.backbone.text_shape.width)
        context = torch.randn(size, generator=generator) * self.config.context_std
        self.bank.append(Prompts(image, context).to(self.backbone.device))

    def abandon(self, learned: int, shared: Mapping[str, Tensor]) -> None:
        """Also drop the centres of the abandoned task."""
        super().abandon(learned, shared)
        del self.router.centres[learned:]

    def route(self, images: Images) -> Route | None:
        """The task of the nearest centre."""
        if not self.tasks:
            return None
        return self.router.route(self.frozen_features(images), vote=self.config.decision == "batch-vote")

    def image_adaptation(self, index: int) -> ExtraTokens:
        """The image tokens of one task."""
        return ExtraTokens(self._prompts(index).image)

    def encode_group(self, index: int, group: ClassGroup) -> Tensor:
        """Context, class name, full stop; the group's templates are not used."""
        template = " ".join([PLACEHOLDER] * self.config.context_length) + " {}."
        tokens = self.tokens(ClassGroup(group.name, group.classes, (template,)))
        return ensemble(self.backbone.encode_texts(tokens, Context(self._prompts(index).context)), 1)

    def _prompts(self, index: int) -> Prompts:
        """The prompts of one task."""
        found = self.bank[index]
        assert isinstance(found, Prompts)
        return found

    # ----------------------------------------------------------------------------------- state, as tensors

    def task_state(self, index: int) -> dict[str, Tensor]:
        """The prompts and the centres."""
        return {**self.bank[index].state_dict(), "router.centres": self.router.centres[index]}

    def load_task(self, task: LearnedTask, tensors: Mapping[str, Tensor]) -> None:
        """Append a task from its tensors."""
        prompts = Prompts(tensors["image"], tensors["context"]).requires_grad_(requires_grad=False)
        self.bank.append(prompts.to(self.backbone.device))
        self.router.add(tensors["router.centres"])
        self.tasks.append(task)

    def forget(self, index: int) -> None:
        """Drop one task; the others are not touched."""
        self.router.remove(index)
        del self.bank[index], self.tasks[index]
        self.forget_features()
