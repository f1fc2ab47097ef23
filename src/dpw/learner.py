"""The public face: a CLIP that keeps learning, and predicts without being told the task."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, overload

import torch
from PIL import Image
from torch import Tensor

from dpw.clip.backbone import Backbone
from dpw.data.images import Images
from dpw.data.pixels import ImageLike, PixelCache, read_images
from dpw.data.prompts import DEFAULT_TEMPLATE
from dpw.data.protocol import Setting
from dpw.data.task import Task
from dpw.engine.evaluation import Evaluator, TestResult
from dpw.engine.training import Trainer, Unwatched, Watcher
from dpw.errors import InputError
from dpw.methods import METHODS, Candidates, ClassGroup, Method, configure
from dpw.storage import model_folder
from dpw.storage.checkpoint import ProgressFolder

PREDICT_BATCH = 64
NO_STOP: Callable[[], bool] = lambda: False  # noqa: E731


@dataclass(frozen=True)
class Prediction:
    """What the model says about one image; `error` says why it could not be read."""

    image: str
    label: str | None = None
    probability: float | None = None
    task: str | None = None
    confidence: float | None = None
    error: str | None = None
    alternatives: tuple[tuple[str, float], ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Plain values; the label is called `class`, as users call it."""
        values = asdict(self)
        return {"image": values.pop("image"), "class": values.pop("label"), **values}


class ContinualCLIP:
    """Learns tasks one after another on a frozen CLIP; see the README for five lines of use.

    Example:
        >>> from PIL import Image
        >>> from dpw import ContinualCLIP
        >>> model = ContinualCLIP.from_pretrained("mini")
        >>> model.predict(Image.new("RGB", (64, 64), "red"), classes=["red", "blue"]).label
        'red'
        >>> model.tasks
        []
    """

    def __init__(self, method: Method, cache: PixelCache | None = None) -> None:
        """Wrap a method that stands on a backbone; use `from_pretrained` instead."""
        self.method = method
        self.cache = cache or PixelCache(method.backbone.preprocessing, cache_folder())

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path,
        method: str | None = None,
        *,
        preset: str = "default",
        settings: Mapping[str, Any] | None = None,
        backbone: str | Path | None = None,
        device: str | torch.device | None = None,
    ) -> "ContinualCLIP":
        """Load a model folder, or start from a CLIP (`mini`, a folder, a hub name) with nothing learned.

        A saved model knows its method and settings; giving others is an error. `backbone` replaces the place
        where a saved model looks for its CLIP.
        """
        below = None if backbone is None else Backbone.from_pretrained(backbone)
        folder = Path(source)
        if model_folder.is_model(folder):
            if settings or preset != "default":
                raise InputError(f"{folder} already has its settings; they cannot be changed after learning")
            loaded = model_folder.load_model(folder, below)
            if method is not None and method != loaded.name:
                raise InputError(f"{folder} was learned by method {loaded.name!r}, not {method!r}")
        else:
            name = method or "dpw"
            config = configure(name, preset, settings, clip=str(backbone or source))
            loaded = METHODS[name](below or Backbone.from_pretrained(source), config)
        model = cls(loaded)
        return model.to(device or default_device())

    def to(self, device: str | torch.device) -> "ContinualCLIP":
        """Move to a device."""
        self.method.to(device)
        return self

    # ----------------------------------------------------------------------------------- learn and forget

    def learn(
        self,
        task: Task,
        *,
        seed: int = 0,
        checkpoint: str | Path | None = None,
        checkpoint_seconds: float = 30.0,
        watcher: Watcher | None = None,
        should_stop: Callable[[], bool] = NO_STOP,
        accelerator: Any = None,
    ) -> None:
        """Learn one more task; with a `checkpoint` folder an interrupted learning goes on where it was."""
        trainer = Trainer(
            cache=self.cache,
            accelerator=accelerator or make_accelerator(),
            seed=seed,
            checkpoint_seconds=checkpoint_seconds,
            watcher=watcher or Unwatched(),
            should_stop=should_stop,
        )
        progress = None
        if checkpoint is not None:
            progress = ProgressFolder(Path(checkpoint), training_identity(self.method, task, seed))
        trainer.fit(self.method, task, progress)

    def forget(self, name: str) -> None:
        """Remove a learned task; the others are not touched."""
        if name not in self.tasks:
            known = ", ".join(self.tasks) or "none"
            raise InputError(f"no task called {name!r} is learned; learned are: {known}")
        self.method.forget(self.tasks.index(name))

    @property
    def tasks(self) -> list[str]:
        """Names of the learned tasks in order."""
        return self.method.task_names

    # ------------------------------------------------------------------------------------------- predict

    @overload
    def predict(  # type: ignore[overload-overlap]
        self, images: ImageLike, *, classes: Sequence[str] | None = None, template: str = ..., top: int = ...
    ) -> Prediction: ...

    @overload
    def predict(
        self,
        images: Sequence[ImageLike],
        *,
        classes: Sequence[str] | None = None,
        template: str = ...,
        top: int = ...,
    ) -> list[Prediction]: ...

    def predict(
        self,
        images: ImageLike | Sequence[ImageLike],
        *,
        classes: Sequence[str] | None = None,
        template: str = DEFAULT_TEMPLATE,
        top: int = 5,
    ) -> Prediction | list[Prediction]:
        """Classify images among all learned classes, or among given ones, learned or not.

        An image that cannot be read gets an `error` and the others are still answered.
        """
        question = self.question(classes, template)
        single = isinstance(images, str | Path | Image.Image)
        wanted: Sequence[ImageLike] = [images] if single else images  # type: ignore[assignment,list-item]
        answers: list[Prediction] = []
        for start in range(0, len(wanted), PREDICT_BATCH):
            chosen = wanted[start : start + PREDICT_BATCH]
            names = [_name(image, start + row) for row, image in enumerate(chosen)]
            answers += self._answer_readable(chosen, names, question, top)
        return answers[0] if single else answers

    def _answer_readable(
        self, images: Sequence[ImageLike], names: list[str], question: Candidates, top: int
    ) -> list[Prediction]:
        """Answer for the images that can be read, in the given order; the others say why not."""
        distinct = dict(zip(names, images, strict=True))
        pixels, errors = read_images(self.cache, list(distinct.values()))
        readable = {name: row for row, name in enumerate(distinct) if row not in errors}
        answers = {
            name: Prediction(name, error=str(errors[row]))
            for row, name in enumerate(distinct)
            if row in errors
        }
        if readable:
            batch = torch.from_numpy(pixels[list(readable.values())]).to(self.method.backbone.device)
            found = self._answer(batch, list(readable), question, top)
            answers |= dict(zip(readable, found, strict=True))
        return [answers[name] for name in names]

    def question(self, classes: Sequence[str] | None, template: str = DEFAULT_TEMPLATE) -> Candidates:
        """The class list of a prediction."""
        if classes is not None:
            names = tuple(classes)
            if not names or len(set(names)) != len(names):
                raise InputError(f"give at least one class and each only once, not {list(names)}")
            if template.count("{}") != 1:
                raise InputError(f"the template {template!r} needs exactly one {{}} for the class name")
            return Candidates.among(ClassGroup("given", names, (template,)))
        if not self.tasks:
            raise InputError("nothing is learned yet: learn a task first, or give classes to choose from")
        return Candidates.learned([task.group() for task in self.method.tasks])

    def _answer(self, pixels: Tensor, names: list[str], question: Candidates, top: int) -> list[Prediction]:
        """Predictions for a batch of pixels."""
        self.method.eval()
        images = Images.of(pixels)
        with torch.inference_mode():
            probabilities = self.method.logits(images, question).float().softmax(dim=1).cpu()
            route = self.method.route(images)
        best = probabilities.topk(min(top, probabilities.shape[1]), dim=1)
        answers = []
        for row, name in enumerate(names):
            ranked = [question.classes[index] for index in best.indices[row].tolist()]
            values = best.values[row].tolist()
            task = ranked[0][0] if question.by_task else None
            if route is not None and task is None:
                task = self.tasks[int(route.task[row])]
            sure = (
                None
                if route is None or task is None
                else float(route.confidence[row, self.tasks.index(task)])
            )
            others = tuple((label, value) for (_, label), value in zip(ranked[1:], values[1:], strict=True))
            answers.append(Prediction(name, ranked[0][1], values[0], task, sure, None, others))
        return answers

    # --------------------------------------------------------------------------------- measure and keep

    def evaluate(
        self, tasks: Sequence[Task], *, setting: Setting = "task-incremental", accelerator: Any = None
    ) -> list[TestResult]:
        """Accuracy on the test images of tasks, learned or not."""
        evaluator = Evaluator(self.cache, accelerator or make_accelerator(), setting)
        return evaluator.row(self.method, tasks)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a model folder that a new process can load without the training data."""
        model_folder.save_model(self.method, Path(folder))


def training_identity(method: Method, task: Task, seed: int) -> dict[str, Any]:
    """What an interrupted training must still be to go on: method, settings, CLIP, task and images."""
    return {
        "method": method.name,
        "config": method.config.model_dump(mode="json"),
        "backbone": method.backbone.fingerprint(),
        "learned": method.task_names,
        "seed": seed,
        **{f"task {key}": value for key, value in task.describe().items()},
        "class names": list(task.classes),
    }


def make_accelerator(**options: Any) -> Any:
    """An Accelerator that splits each batch over the processes, so that their number changes no result."""
    from accelerate import Accelerator, DataLoaderConfiguration, DistributedDataParallelKwargs

    return Accelerator(
        dataloader_config=DataLoaderConfiguration(split_batches=True),
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
        **options,
    )


def default_device() -> torch.device:
    """The accelerator of this machine, or the CPU."""
    found = torch.accelerator.current_accelerator(check_available=True)
    return found if found is not None else torch.empty(0).device


def cache_folder() -> Path:
    """Where preprocessed pixels are kept: DPW_CACHE, or the user's cache folder."""
    chosen = os.environ.get("DPW_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(chosen) if chosen else Path(base) / "dpw"


def _name(image: ImageLike, row: int) -> str:
    """How an image is called in the answer."""
    return f"image {row}" if isinstance(image, Image.Image) else str(image)
