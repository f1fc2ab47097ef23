"""DPeCLIP, reconstructed: class prototypes tell the task and are turned into prompts for it.

No code was ever published; what is known is the abstract, the captions and the tables. The sizes, the
threshold and how prototypes become tokens are ours.
"""

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor, nn

from dpw.clip.backbone import Backbone
from dpw.data.images import Images
from dpw.data.task import Task
from dpw.methods.base import LearnedTask, TaskImages, ensemble, register
from dpw.methods.candidates import Candidates, ClassGroup
from dpw.methods.config import RoutedConfig, TrainingConfig
from dpw.methods.parts.epochs import adam_by_epochs
from dpw.methods.parts.switched import PLAIN, SwitchedMethod
from dpw.methods.routing.gaussian import Route
from dpw.methods.routing.routers import PrototypeRouter, kmeans
from dpw.methods.s_prompts import PLACEHOLDER, Context, ExtraTokens


class DPeCLIPConfig(RoutedConfig):
    """The constants of the reconstruction."""

    training: TrainingConfig = adam_by_epochs(1e-3)
    image_tokens: int = Field(8, ge=1)
    token_std: float = Field(0.02, gt=0)
    reject_quantile: float = Field(0.05, ge=0, lt=1)


class PriorPrompts(nn.Module):
    """What one task learns: a token each plus a linear map of what the domain looks like, from zero."""

    centres: Tensor
    prototypes: Tensor

    def __init__(self, image: Tensor, text: Tensor, centres: Tensor, prototypes: Tensor) -> None:
        """Starting tokens image `(M, D)`, text `(D,)`; frozen centres `(M, E)` and prototypes `(C, E)`."""
        super().__init__()
        self.image_token, self.text_token = nn.Parameter(image.clone()), nn.Parameter(text.clone())
        self.image_map = nn.Parameter(torch.zeros(centres.shape[1], image.shape[1]))
        self.text_map = nn.Parameter(torch.zeros(prototypes.shape[1], len(text)))
        self.register_buffer("centres", centres.clone())
        self.register_buffer("prototypes", prototypes.clone())

    def image_tokens(self) -> Tensor:
        """Tokens `(M, D)` for every image of the domain."""
        return self.image_token + self.centres @ self.image_map

    def text_tokens(self, rows: list[int]) -> Tensor:
        """One token `(C, 1, D)` for the prompt of each of these classes."""
        return (self.text_token + self.prototypes[rows] @ self.text_map)[:, None]


@register()
class DPeCLIP(SwitchedMethod):
    """Prompts from prototypes where an image is accepted by its task, plain CLIP where it is not."""

    name = "dpeclip"
    summary = "DPeCLIP (reconstruction): prototypes choose the task and become its prompts"
    status = "reconstruction: no code was published"
    config_class = DPeCLIPConfig
    config: DPeCLIPConfig
    isolated = True
    own_classes_only = True

    def __init__(self, backbone: Backbone, config: DPeCLIPConfig) -> None:
        """Start with a router that knows no task."""
        super().__init__(backbone, config)
        self.router = PrototypeRouter()

    def begin_task(self, task: Task, images: TaskImages) -> None:
        """Form the prototypes, and prompts that do not yet depend on them."""
        super().begin_task(task, images)
        features, labels = self.collect_features(images)
        self.router.fit(features, labels, len(task.classes), self.config.reject_quantile)
        prototypes = self.router.prototypes[-1]
        generator = torch.Generator().manual_seed(self.config.seed + len(self.bank))
        centres = kmeans(prototypes, self.config.image_tokens, generator)
        image = torch.randn(len(centres), self.backbone.image_shape.width, generator=generator)
        text = torch.randn(self.backbone.text_shape.width, generator=generator)
        std = self.config.token_std
        module = PriorPrompts(image * std, text * std, centres, prototypes)
        self.bank.append(module.to(self.backbone.device))

    def abandon(self, learned: int, shared: Mapping[str, Tensor]) -> None:
        """Also drop the prototypes of the abandoned task."""
        super().abandon(learned, shared)
        del self.router.prototypes[learned:], self.router.least[learned:]

    # ------------------------------------------------------------------------------------------ answering

    def route(self, images: Images) -> Route | None:
        """The task of the most similar prototype of all."""
        return self._route(images, None) if self.tasks else None

    def _route(self, images: Images, among: list[int] | None) -> Route:
        """The most similar task of those in `among`."""
        vote = self.config.decision == "batch-vote"
        return self.router.route(self.frozen_features(images), vote, among)

    def choose(self, images: Images, candidates: Candidates) -> Tensor:
        """Class-incremental: any task. Else only tasks that know all candidates; plain CLIP without any."""
        among = None
        if not candidates.by_task:
            names = {name for _, name in candidates.classes}
            among = [index for index, task in enumerate(self.tasks) if names <= set(task.classes)]
            if not among:
                return torch.full((len(images),), PLAIN)
        route = self._route(images, among)
        return torch.where(route.weight > 0, route.task, PLAIN)

    def image_adaptation(self, index: int) -> ExtraTokens:
        """The domain's tokens beside the image patches."""
        return ExtraTokens(self._prompts(index).image_tokens())

    def encode_group(self, index: int, group: ClassGroup) -> Tensor:
        """The prompts with the class's own token after the start token."""
        templates = tuple(f"{PLACEHOLDER} {template}" for template in group.templates)
        tokens = self.tokens(ClassGroup(group.name, group.classes, templates))
        learned = self.tasks[index].classes
        rows = [learned.index(name) for name in group.classes] * len(templates)
        context = Context(self._prompts(index).text_tokens(rows))
        return ensemble(self.backbone.encode_texts(tokens, context), len(templates))

    def _prompts(self, index: int) -> PriorPrompts:
        """The prompts of one task."""
        found = self.bank[index]
        assert isinstance(found, PriorPrompts)
        return found

    # ----------------------------------------------------------------------------------- state, as tensors

    def task_state(self, index: int) -> dict[str, Tensor]:
        """Tokens, maps, prototypes and the least similarity."""
        return {**self.bank[index].state_dict(), "router.least": self.router.least[index]}

    def load_task(self, task: LearnedTask, tensors: Mapping[str, Tensor]) -> None:
        """Append a task from its tensors."""
        own = {name: tensor for name, tensor in tensors.items() if not name.startswith("router.")}
        module = PriorPrompts(own["image_token"], own["text_token"], own["centres"], own["prototypes"])
        module.load_state_dict(own)
        self.bank.append(module.requires_grad_(requires_grad=False).to(self.backbone.device))
        self.router.add(tensors["prototypes"], tensors["router.least"])
        self.tasks.append(task)

    def forget(self, index: int) -> None:
        """Drop one task; the others are not touched."""
        self.router.remove(index)
        del self.bank[index], self.tasks[index]
        self.forget_features()
