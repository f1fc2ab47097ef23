"""What every method is: how it learns one task, answers for images, and gives its state away."""

import copy
from abc import ABC
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dpw.clip.backbone import Backbone
from dpw.data.images import Images
from dpw.data.pixels import PixelCache
from dpw.data.protocol import get_protocol
from dpw.data.reference import ReferenceData
from dpw.data.task import Task
from dpw.errors import InputError
from dpw.methods.bank import Bank, StoredTask, TaskSource
from dpw.methods.candidates import Candidates, ClassGroup
from dpw.methods.catalog import refuse_mixed
from dpw.methods.config import MethodConfig
from dpw.methods.feature_cache import FeatureCache
from dpw.methods.routing.route import Route


class TaskImages(Protocol):
    """The training images of a task, in a fixed order and without augmentation."""

    def __len__(self) -> int:
        """How many there are."""
        ...

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Pixels `(B, 3, H, W)` and labels `(B,)` on the method's device."""
        ...


class Answers(Protocol):
    """How a method answers, as a part it is given: plain CLIP, weighted or switched for every image."""

    def task_logits(self, pixels: Tensor) -> Tensor:
        """Logits over the classes of the task being learned, the task being known."""
        ...

    def logits(self, images: Images, candidates: Candidates) -> Tensor:
        """Logits `(B, C)` over the candidates, nobody having said which task the images belong to."""
        ...

    def route(self, images: Images) -> Route | None:
        """Which task each image was taken for, or None if nobody asks."""
        ...

    def typicality(self, images: Images) -> Tensor | None:
        """How typical every image is of every task `(B, T)`, or None if nobody can tell."""
        ...

    def clear(self) -> None:
        """Drop kept text features, because weights or tasks have changed."""
        ...


@dataclass(frozen=True)
class LearnedTask:
    """What a method remembers of a task besides tensors."""

    name: str
    classes: tuple[str, ...]
    templates: tuple[str, ...]
    protocol: str = "coop"
    details: dict[str, Any] = field(default_factory=dict)

    def group(self) -> ClassGroup:
        """The task's classes with the templates its protocol uses at test time."""
        ensemble = get_protocol(self.protocol).ensemble
        return ClassGroup(self.name, self.classes, self.templates if ensemble else self.templates[:1])


@dataclass(frozen=True)
class Memento:
    """A method as it was before a task: how many tasks, and copies of what they share."""

    tasks: int
    shared: Mapping[str, Any]


class Method(nn.Module, ABC):
    """A way to keep learning; subclasses are one file each and register under a name.

    A method owns a module of the bank for each task and, if it must, parts that all tasks share. `shared`
    names the attributes of the latter, `temporary` those that exist only while a task is learned and are
    None otherwise. From these follow saving, loading, forgetting and the way back from an abandoned task.
    """

    name: ClassVar[str]
    config_class: ClassVar[type[MethodConfig]] = MethodConfig
    summary: ClassVar[str] = ""
    status: ClassVar[str] = "from the paper and its code"
    routes: ClassVar[bool] = False  # decides itself which task an image belongs to
    isolated: ClassVar[bool] = False  # a task's tensors never change once it is learned
    zero_shot: ClassVar[bool] = True  # whether it can answer among classes it has never learned
    trains: ClassVar[bool] = True  # whether a task is learned by gradient; otherwise it is only computed
    shared: ClassVar[tuple[str, ...]] = ()
    temporary: ClassVar[tuple[str, ...]] = ()
    resident: ClassVar[tuple[str, ...]] = ()  # `part.` or `part.tensor`: what every answer needs of a task
    uses_validation: ClassVar[bool] = False  # chooses settings of its own on validation images
    folder_rates: ClassVar[tuple[float, ...]] = ()  # Adam's, tried where a person's folder is learned
    folder_settings: ClassVar[Mapping[str, Any]] = {}  # what suits a person's folder besides

    answers: Answers

    def __init__(self, backbone: Backbone, config: MethodConfig) -> None:
        """Stand on a frozen backbone, with no task learned; subclasses set `answers`."""
        super().__init__()
        self.backbone = backbone
        self.config = config
        self.tasks: list[LearnedTask] = []
        self.bank = Bank()
        self.validation: TaskImages | None = (
            None  # of the task being learned, set by training; never trained on
        )
        self.reference = ReferenceData()  # used where no setting names reference data
        self.share: tuple[int, int, int] | None = None  # samples of the batch: start, stop, of how many
        self.step = 0  # set before every training batch, so that what a method draws depends on it alone
        self.planned_steps = 0  # of the task being learned, set by training before its first batch
        self.feature_cache: FeatureCache | None = None  # given by an evaluation that asks about images again
        self.read_from: str | None = None  # the folder whose tensors it was given
        self._tokens: dict[ClassGroup, Tensor] = {}

    @property
    def independent(self) -> bool:
        """Whether every task is learned as if it were the only one: in any order to the same tensors."""
        return self.isolated

    def notices(self) -> list[str]:
        """What somebody who starts a training should know, one sentence each."""
        return []

    # ------------------------------------------------------------------------------------ learning a task

    def begin_task(self, task: Task, images: TaskImages) -> None:
        """Make room for a task: its module in the bank, with statistics of its images."""
        if task.name in self.task_names:
            raise InputError(f"task {task.name!r} is already learned: forget it first or choose another name")
        self.tasks.append(LearnedTask(task.name, task.classes, task.templates, task.protocol))
        self.bank.append(self.new_module(task, images).to(self.backbone.device))
        self.answers.clear()

    def new_module(self, task: Task, images: TaskImages) -> nn.Module:  # noqa: ARG002
        """What the newest task learns, as it starts; nothing if all tasks share everything."""
        return nn.Module()

    def task_logits(self, pixels: Tensor) -> Tensor:
        """Logits over the classes of the task being learned, the task being known."""
        return self.answers.task_logits(pixels)

    def forward(self, pixels: Tensor, labels: Tensor) -> Tensor:
        """The training loss of a batch."""
        smoothing = self.config.training.label_smoothing
        return F.cross_entropy(self.task_logits(pixels), labels, label_smoothing=smoothing)

    def after_step(self, step: int) -> None:
        """Called after every optimiser step, for methods that average or count."""

    def end_epoch(self) -> None:
        """Called after the last step of every epoch, before validation."""

    def end_task(self, images: TaskImages) -> None:  # noqa: ARG002
        """Close a task with the selected weights: nothing is trainable and nothing temporary any more."""
        self._close()

    def trainable(self) -> dict[str, nn.Parameter]:
        """The parameters the optimiser may change now."""
        return {name: tensor for name, tensor in self.named_parameters() if tensor.requires_grad}

    def learning_rate_factor(self, parameter: str) -> float:  # noqa: ARG002
        """By how much the learning rate of one trainable parameter differs from the configured one."""
        return 1.0

    def snapshot(self) -> dict[str, Tensor]:
        """A copy of everything training changes, to come back to the best epoch."""
        buffers = {n: t for n, t in self.named_buffers() if not n.startswith("backbone.")}
        return {name: tensor.detach().clone() for name, tensor in {**self.trainable(), **buffers}.items()}

    def restore(self, snapshot: Mapping[str, Tensor]) -> None:
        """Go back to a snapshot of the same task; earlier tasks that lie on disk are as they were."""
        current = {**self.trainable(), **dict(self.named_buffers())}
        with torch.no_grad():
            for name in snapshot.keys() - self.bank.names_on_disk(snapshot):
                current[name].copy_(snapshot[name])

    # ------------------------------------------------------------------------------------------ answering

    def logits(self, images: Images, candidates: Candidates) -> Tensor:
        """Logits `(B, C)` over the candidates, nobody having said which task the images belong to."""
        return self.answers.logits(images, candidates)

    def probabilities(self, logits: Tensor) -> Tensor:
        """How likely each candidate is `(B, C)`: a softmax, or plain CLIP's rule before any task."""
        return logits.softmax(dim=1) if self.tasks else self.backbone.zero_shot_probabilities(logits)

    def route(self, images: Images) -> Route | None:
        """Which task each image was taken for, or None if the method does not ask."""
        return self.answers.route(images)

    def typicality(self, images: Images) -> Tensor | None:
        """Share `(B, T)` of each task's own held-out images that are no more typical of it than an image.

        An image below q for every task is unknown, but for a share of at most q of the images of a task.
        None if the method cannot tell.
        """
        return self.answers.typicality(images)

    # --------------------------------------------------------------------------- going back and forgetting

    def remember(self) -> Memento:
        """The state to come back to if the next task is abandoned."""
        return Memento(len(self.tasks), {name: copy.deepcopy(getattr(self, name)) for name in self.shared})

    def abandon(self, before: Memento) -> None:
        """Leave a task half-way: everything is as it was before it began."""
        del self.tasks[before.tasks :], self.bank[before.tasks :]
        for name, value in before.shared.items():
            setattr(self, name, value)
        self._close()
        self.clear_features()

    def forget(self, index: int) -> None:
        """Remove a task; the others are not touched. Refused where tasks live in the same weights."""
        refuse_mixed(self.name, self.isolated, self.tasks[index].name)
        del self.tasks[index], self.bank[index]
        self.clear_features()

    def clear_features(self) -> None:
        """Drop kept features and tokens: tasks have moved, weights have changed, or room is short."""
        self.answers.clear()
        self._tokens.clear()
        if self.feature_cache is not None:
            self.feature_cache = FeatureCache()

    def _close(self) -> None:
        """Freeze everything and drop what exists only while a task is learned."""
        for name in self.temporary:
            setattr(self, name, None)
        self.requires_grad_(requires_grad=False)
        self.answers.clear()

    # ----------------------------------------------------------------------------------- state, as tensors

    def shared_state(self) -> dict[str, Tensor]:
        """Tensors that belong to no single task."""
        return {}

    def load_shared_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take shared tensors back."""
        if tensors:
            raise InputError(f"method {self.name!r} has no shared state but was given {sorted(tensors)[0]!r}")

    def task_state(self, index: int) -> dict[str, Tensor]:
        """All tensors of one task, parameters and statistics."""
        return dict(self.bank[index].state_dict())

    def load_task(self, task: LearnedTask, tensors: Mapping[str, Tensor]) -> None:
        """Append a task from its stored tensors."""
        self.bank.append(self._filled(tensors).to(self.backbone.device))
        self.tasks.append(task)

    def place_task(self, task: LearnedTask, source: TaskSource) -> None:
        """Append a task whose tensors stay where they are until an answer needs them.

        Only what `resident` names is taken into memory; that the others fit is seen by their shapes.
        """
        with torch.device("meta"):
            outline: Any = self._filled(source.shapes)
        kept = {name[:-1]: outline[name[:-1]] for name in self.resident if name.endswith(".")}
        for name, part in kept.items():
            part.tensors = {own: source.light[f"{name}.{own}"] for own in part.tensors}
        parameters = sum(tensor.numel() for tensor in outline.parameters())
        self.bank.append(StoredTask(source, kept, self._read_module, parameters))
        self.tasks.append(task)

    def _filled(self, tensors: Mapping[str, Tensor]) -> nn.Module:
        """A module of the bank made of stored tensors."""
        module = self.stored_module(tensors)
        module.load_state_dict(dict(tensors))
        return module.requires_grad_(requires_grad=False)

    def _read_module(self, tensors: Mapping[str, Tensor]) -> nn.Module:
        """The module of a task that was read to answer, which training may need later."""
        with torch.inference_mode(mode=False):
            return self._filled(tensors).to(self.backbone.device).eval()

    def stored_module(self, tensors: Mapping[str, Tensor]) -> nn.Module:
        """A module of the bank with room for stored tensors, whose shapes say how large it is."""
        if tensors:
            raise InputError(
                f"method {self.name!r} keeps nothing per task but was given {sorted(tensors)[0]!r}"
            )
        return nn.Module()

    def progress_state(self) -> dict[str, Tensor]:
        """Tensors that matter only while a task is being trained."""
        return {}

    def load_progress_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the tensors of an interrupted training back."""

    # -------------------------------------------------------------------------------------- shared helpers

    @cached_property
    def pixel_cache(self) -> PixelCache:
        """Where pixels of reference images come from: training sets its own cache, this one keeps nothing."""
        return PixelCache(self.backbone.preprocessing, folder=None)

    @property
    def task_names(self) -> list[str]:
        """Names of the learned tasks in order."""
        return [task.name for task in self.tasks]

    def index_of(self, name: str) -> int:
        """Position of a learned task."""
        if name not in self.task_names:
            raise InputError(f"task {name!r} is not learned; learned are {', '.join(self.task_names)}")
        return self.task_names.index(name)

    def parameter_count(self) -> int:
        """Learned parameters of all tasks so far, the frozen backbone apart."""
        named = self.named_parameters()
        here = sum(tensor.numel() for name, tensor in named if not name.startswith("backbone."))
        return here + sum(task.parameter_count for task in self.bank.stored())

    def tokens(self, group: ClassGroup) -> Tensor:
        """Token ids of all prompts of a group `(templates · C, N)`, tokenised once."""
        if group not in self._tokens:
            prompts = [prompt for row in group.prompts() for prompt in row]
            with torch.inference_mode(mode=False):  # they are kept, and training may need them later
                self._tokens[group] = self.backbone.tokenize(prompts)
        return self._tokens[group].to(self.backbone.device)

    def training_group(self) -> ClassGroup:
        """The classes being learned, by the first template."""
        task = self.tasks[-1]
        return ClassGroup(task.name, task.classes, task.templates[:1])

    def training_tokens(self) -> Tensor:
        """Token ids of the classes being learned."""
        return self.tokens(self.training_group())

    def frozen_image_features(self, pixels: Tensor) -> Tensor:
        """Normalised features of plain CLIP."""
        return F.normalize(self.backbone.encode_images(pixels), dim=-1)

    def frozen_features(self, images: Images) -> Tensor:
        """Normalised features of plain CLIP, which routers look at; once for every batch."""

        def compute(batch: Images) -> Tensor:
            """Only those that were never seen."""
            ways = ["frozen"] * len(batch)
            return self.recall(batch, ways, lambda rows: self.frozen_image_features(batch.pixels(rows)))

        return images.once("frozen", compute)

    def frozen_text_features(self, group: ClassGroup) -> Tensor:
        """Normalised class features of plain CLIP, averaged over the group's templates, `(C, E)`."""
        return ensemble(self.backbone.encode_texts(self.tokens(group)), len(group.templates))

    def recall(
        self, images: Images, ways: Sequence[Hashable], compute: Callable[[Sequence[int]], Tensor]
    ) -> Tensor:
        """Features of images, each in one way (a task, a weight); those of the cache are not computed again.

        `compute(rows)` gives the features of some rows. A way must say everything that decides a feature;
        None stands for one that may change, and is never kept.
        """
        if self.feature_cache is None or images.keys is None:
            return compute(range(len(images)))
        lasting = [row for row, way in enumerate(ways) if way is not None]
        fresh = [row for row, way in enumerate(ways) if way is None]
        keys = [(ways[row], images.keys[row]) for row in lasting]
        parts = [compute(fresh)] if fresh else []
        if lasting:
            kept = self.feature_cache.recall(keys, lambda rows: compute([lasting[row] for row in rows]))
            parts.append(kept.to(self.backbone.device))
        return torch.cat(parts)[torch.tensor([*fresh, *lasting]).argsort()]

    def collect_features(self, images: TaskImages) -> tuple[Tensor, Tensor]:
        """Frozen features and labels of all training images, in order."""
        with torch.no_grad():
            pairs = [(self.frozen_image_features(pixels), labels) for pixels, labels in images.batches()]
        features, labels = zip(*pairs, strict=True)
        return torch.cat(features), torch.cat(labels)


def ensemble(features: Tensor, templates: int) -> Tensor:
    """Normalise `(templates · C, E)`, average over the templates and normalise again."""
    by_template = F.normalize(features, dim=-1).view(templates, -1, features.shape[-1])
    return by_template[0] if templates == 1 else F.normalize(by_template.mean(dim=0), dim=-1)
