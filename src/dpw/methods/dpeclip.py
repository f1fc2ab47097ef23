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
from dpw.data.reference import seeded
from dpw.data.task import Task
from dpw.methods.bank import HostTensors
from dpw.methods.base import Method, TaskImages, ensemble
from dpw.methods.candidates import Candidates, ClassGroup
from dpw.methods.config import RoutedConfig, TrainingConfig
from dpw.methods.parts.steps import MINI_PASSES, adam_by_steps
from dpw.methods.parts.switched import PLAIN, SwitchedAnswers
from dpw.methods.registry import register
from dpw.methods.routing.kmeans import kmeans
from dpw.methods.routing.prototypes import PrototypeRouter, Prototypes, fit_prototypes
from dpw.methods.routing.route import Route
from dpw.methods.s_prompts import Context, ExtraTokens, placeholders


class DPeCLIPConfig(RoutedConfig):
    """The constants of the reconstruction."""

    training: TrainingConfig = adam_by_steps(1e-3)
    """How one task is trained."""
    image_tokens: int = Field(8, ge=1)
    """Learned tokens of the image tower."""
    token_std: float = Field(0.02, gt=0)
    """Deviation of the learned tokens at their start."""
    reject_quantile: float = Field(0.05, ge=0, lt=1)
    """Share of a task's own images that it may reject."""


class PriorPrompts(nn.Module):
    """What one task learns: a token each plus a linear map of what the domain looks like, from zero."""

    centres: Tensor
    prototypes: Tensor

    def __init__(
        self, image: Tensor, text: Tensor, centres: Tensor, prototypes: Tensor, threshold: Tensor
    ) -> None:
        """Starting tokens image `(M, D)`, text `(D,)`; frozen centres `(M, E)` and prototypes `(C, E)`.

        The threshold is stored as `router.least`.
        """
        super().__init__()
        self.image_token, self.text_token = nn.Parameter(image.clone()), nn.Parameter(text.clone())
        self.image_map = nn.Parameter(torch.zeros(centres.shape[1], image.shape[1]))
        self.text_map = nn.Parameter(torch.zeros(prototypes.shape[1], len(text)))
        self.register_buffer("centres", centres.clone())
        self.register_buffer("prototypes", prototypes.clone())
        self.router = HostTensors({"least": threshold})

    def image_tokens(self) -> Tensor:
        """Tokens `(M, D)` for every image of the domain."""
        return self.image_token + self.centres @ self.image_map

    def text_tokens(self, rows: list[int]) -> Tensor:
        """One token `(C, 1, D)` for the prompt of each of these classes."""
        return (self.text_token + self.prototypes[rows] @ self.text_map)[:, None]


@register(mini=MINI_PASSES | {"training.learning_rate": 3e-3})
class DPeCLIP(Method):
    """Prompts from prototypes where an image is accepted by its task, plain CLIP where it is not.

    Known from the abstract, captions and tables: prototypes of the classes, computed with CLIP and without
    training, tell which task an image belongs to, and only that task's classes are then considered; the
    same prototypes are given to the model as prompts while a task is learned.

    How we do it: a prototype is the normalised mean feature of a class. An image goes to the task of its
    most similar prototype, unless it is less similar than 95 % of that task's own images are (each compared
    with prototypes formed without it); then plain CLIP answers. Eight image tokens come from the cluster
    centres of the prototypes and one text token for each class from its own prototype, through linear maps
    that start at zero and are added to learned tokens. The image tokens stand beside the patches and are
    seen by them, the text token stands behind the start of the prompt. Because an extra token always takes
    some attention, a task starts near plain CLIP, not exactly at it. Asked about a class list, only tasks
    that know all its classes are considered, so unseen class lists get plain CLIP's answer. Asked about all
    learned classes, only the chosen task's can win; where domains that are not learned stand beside, their
    classes and those of other tasks are compared as plain CLIP has them.
    """

    name = "dpeclip"
    summary = "DPeCLIP (reconstruction): prototypes choose the task and become its prompts"
    status = "reconstruction: no code was published"
    config_class = DPeCLIPConfig
    config: DPeCLIPConfig
    routes = True
    isolated = True

    def __init__(self, backbone: Backbone, config: DPeCLIPConfig) -> None:
        """Switch to the prompts of the task with the most similar prototype."""
        super().__init__(backbone, config)
        self.router = PrototypeRouter(self._prototypes)
        self.answers = SwitchedAnswers(
            self,
            self.image_adaptation,
            self.encode_group,
            self._route,
            choose=self.choose,
            own_classes_only=True,
        )

    def new_module(self, task: Task, images: TaskImages) -> PriorPrompts:
        """Form the prototypes, and prompts that do not yet depend on them."""
        features, labels = self.collect_features(images)
        fitted = fit_prototypes(features, labels, len(task.classes), self.config.reject_quantile)
        generator = seeded(self.config.seed, task.name, "prompts")
        centres = kmeans(fitted.prototypes, self.config.image_tokens, generator)
        image = torch.randn(len(centres), self.backbone.image_shape.width, generator=generator)
        text = torch.randn(self.backbone.text_shape.width, generator=generator)
        std = self.config.token_std
        return PriorPrompts(image * std, text * std, centres, fitted.prototypes, fitted.threshold)

    def stored_module(self, tensors: Mapping[str, Tensor]) -> PriorPrompts:
        """Tokens, maps, prototypes and threshold with the shapes of stored tensors."""
        names = ("image_token", "text_token", "centres", "prototypes", "router.least")
        return PriorPrompts(*(tensors[name] for name in names))

    # ------------------------------------------------------------------------------------------ answering

    def _prototypes(self) -> list[Prototypes]:
        """What the router knows of every task."""
        every = [self._prompts(index) for index in range(len(self.bank))]
        return [Prototypes(prompts.prototypes, prompts.router["least"]) for prompts in every]

    def _route(self, images: Images, among: list[int] | None = None) -> Route:
        """The most similar task of all, or of those in `among`."""
        vote = self.config.decision == "batch-vote"
        return self.router.route(self.frozen_features(images), vote, among)

    def choose(self, images: Images, candidates: Candidates) -> Tensor:
        """Among several domains: any task. Else only those that know all candidates, or plain CLIP."""
        among = None
        if not candidates.spans_domains:
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
        word = placeholders(self.backbone, 1)
        templates = tuple(f"{word} {template}" for template in group.templates)
        tokens = self.tokens(ClassGroup(group.name, group.classes, templates))
        learned = self.tasks[index].classes
        rows = [learned.index(name) for name in group.classes] * len(templates)
        starts = self.backbone.family.texts.starts
        context = Context(self._prompts(index).text_tokens(rows), starts)
        return ensemble(self.backbone.encode_texts(tokens, context), len(templates))

    def _prompts(self, index: int) -> PriorPrompts:
        """The prompts of one task."""
        found = self.bank[index]
        assert isinstance(found, PriorPrompts)
        return found
