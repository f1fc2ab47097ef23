"""S-Prompts (S-liPrompts): each domain learns its own prompts for both towers, chosen by k-means."""

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor, nn

from dpw.clip.adaptation import Adaptation
from dpw.clip.backbone import Backbone
from dpw.data.images import Images
from dpw.data.reference import seeded
from dpw.data.task import Task
from dpw.errors import InputError
from dpw.methods.bank import HostTensors
from dpw.methods.base import Method, TaskImages, ensemble
from dpw.methods.candidates import ClassGroup
from dpw.methods.config import RoutedConfig, TrainingConfig
from dpw.methods.parts.switched import SwitchedAnswers
from dpw.methods.registry import register
from dpw.methods.routing.kmeans import KMeansRouter, kmeans
from dpw.methods.routing.route import Route

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
    """How one task is trained."""
    image_tokens: int = Field(10, ge=1)
    """Learned tokens of the image tower."""
    context_length: int = Field(16, ge=1)
    """Learned tokens before a class name."""
    context_std: float = Field(0.02, gt=0)
    """Deviation of the learned tokens at their start."""
    centres: int = Field(5, ge=1)
    """K-means centres that a task is found by."""


class Prompts(nn.Module):
    """What one task learns: tokens beside the image patches and a context before every class name."""

    def __init__(self, image: Tensor, context: Tensor, centres: Tensor) -> None:
        """image `(M, D)`, context `(L, D of the text tower)`; the router's centres `(k, E)` stay as found."""
        super().__init__()
        self.image, self.context = nn.Parameter(image.clone()), nn.Parameter(context.clone())
        self.router = HostTensors({"centres": centres})


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

    def __init__(self, context: Tensor, starts: int = 1) -> None:
        """context `(L, D)` for all prompts, or `(C, L, D)`; `starts`: tokens before the placeholders."""
        self.context, self.starts = context, starts

    def tokens(self, h: Tensor) -> Tensor:
        """Replace the placeholders."""
        first, last = self.starts, self.starts + self.context.shape[-2]
        return torch.cat([h[:, :first], self.context.expand(len(h), -1, -1), h[:, last:]], dim=1)


def placeholders(backbone: Backbone, count: int) -> str:
    """Words that make as many tokens, to be replaced by learned ones."""
    words = " ".join([PLACEHOLDER] * count)
    empty, row = backbone.tokenizer(["", words])["input_ids"]
    if len(row) - len(empty) != count:
        raise InputError(
            f"the tokeniser of {backbone.reference or 'this CLIP'} makes {len(row) - len(empty)} tokens of "
            f"{count} times {PLACEHOLDER!r}, so a learned context cannot take their place: choose a method "
            "without one, such as dpw"
        )
    return words


# Sixteen random words before a class name are half of what the text tower of `mini` reads.
@register(
    mini={
        "training.batch_size": 32,
        "training.epochs": 6,
        "training.learning_rate": 0.01,
        "context_length": 4,
    }
)
class SPrompts(Method):
    """Independent prompts per domain, the domain being that of the nearest centre.

    CLIP is frozen. Each task learns ten tokens beside the image patches and a context of sixteen tokens
    that replaces the words of the template before every class name. Tasks share nothing. After k-means on
    the frozen features of a task's images, five centres stand for it; an image is given to the task whose
    centre is nearest in L1, always, even if it belongs to none. The context does not depend on the class,
    so any class list can be asked; templates are not used. Asked about all learned classes, only those of
    the chosen task can win, as in the public code. The paper trains 20 to 50 epochs; the default here is
    20.
    """

    name = "s-prompts"
    summary = "S-Prompts: image tokens and a text context per task, chosen by k-means (NeurIPS 2022)"
    config_class = SPromptsConfig
    config: SPromptsConfig
    routes = True
    isolated = True

    def __init__(self, backbone: Backbone, config: SPromptsConfig) -> None:
        """Switch to the prompts of the task an image is nearest to."""
        super().__init__(backbone, config)
        self.router = KMeansRouter(lambda: [self._prompts(index).router for index in range(len(self.bank))])
        self.answers = SwitchedAnswers(
            self, self.image_adaptation, self.encode_group, self._nearest, own_classes_only=True
        )

    def new_module(self, task: Task, images: TaskImages) -> Prompts:
        """Find the task's centres and draw its prompts."""
        generator = seeded(self.config.seed, task.name, "prompts")
        features, _ = self.collect_features(images)
        centres = kmeans(features, self.config.centres, generator)
        width = self.backbone.image_shape.width
        # The public code keeps the tokens as the weight of a linear layer, and so they start.
        image = (2 * torch.rand(self.config.image_tokens, width, generator=generator) - 1) * width**-0.5
        size = (self.config.context_length, self.backbone.text_shape.width)
        context = torch.randn(size, generator=generator) * self.config.context_std
        return Prompts(image, context, centres)

    def stored_module(self, tensors: Mapping[str, Tensor]) -> Prompts:
        """Prompts and centres with the shapes of stored tensors."""
        return Prompts(tensors["image"], tensors["context"], tensors["router.centres"])

    def _nearest(self, images: Images) -> Route:
        """The task of the nearest centre."""
        return self.router.route(self.frozen_features(images), vote=self.config.decision == "batch-vote")

    def image_adaptation(self, index: int) -> ExtraTokens:
        """The image tokens of one task."""
        return ExtraTokens(self._prompts(index).image)

    def encode_group(self, index: int, group: ClassGroup) -> Tensor:
        """Context, class name, full stop; the group's templates are not used."""
        template = f"{placeholders(self.backbone, self.config.context_length)} {{}}."
        tokens = self.tokens(ClassGroup(group.name, group.classes, (template,)))
        context = Context(self._prompts(index).context, self.backbone.family.texts.starts)
        return ensemble(self.backbone.encode_texts(tokens, context), 1)

    def _prompts(self, index: int) -> Prompts:
        """The prompts of one task."""
        found = self.bank[index]
        assert isinstance(found, Prompts)
        return found
