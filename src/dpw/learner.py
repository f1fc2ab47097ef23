"""The public face: a CLIP that keeps learning, and predicts without being told the task."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, overload

import torch
from PIL import Image

from dpw.clip.backbone import Backbone
from dpw.data.pixels import ImageLike, PixelCache, cache_folder
from dpw.data.protocol import Setting
from dpw.data.task import Task
from dpw.engine.callbacks import TrainingCallback, never
from dpw.engine.devices import default_device, make_accelerator
from dpw.engine.evaluation import Evaluator, TestResult
from dpw.engine.prediction import Prediction, predict_images
from dpw.engine.training import Trainer, training_identity
from dpw.errors import InputError
from dpw.methods import METHODS, Candidates, ClassGroup, Method, configure
from dpw.storage import model_folder
from dpw.storage.checkpoint import TrainingCheckpoint

__all__ = ["Backbone", "ContinualCLIP", "Prediction", "Setting", "Task", "TrainingCallback"]


class ContinualCLIP:
    """A CLIP that learns tasks one after another and predicts without being told which task an image is from.

    Example:
        >>> import dpw
        >>> signs = dpw.load_benchmark("mini", order=["signs"], shots=1).tasks[0]
        >>> learner = dpw.ContinualCLIP.from_pretrained("mini", settings={"training.iterations": 1})
        >>> learner.learn(signs)
        >>> answer = learner.predict(signs.test[0].image)
        >>> answer.task, answer.label in signs.classes
        ('signs', True)
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
        allow_download: bool = False,
    ) -> "ContinualCLIP":
        """Load a model folder, or start from a CLIP with nothing learned.

        Args:
            source: a model folder, or a CLIP: `mini`, a folder, a hub name.
            method: the method of a new model (`dpw` by default); a saved model knows its own.
            preset: a named set of a new model's settings.
            settings: single settings of a new model, by dotted name; they go over the preset.
            backbone: the CLIP itself, where it is not where the saved model expects it.
            device: where to compute; the accelerator of this machine by default.
            allow_download: whether the CLIP that a saved model names may be fetched from the hub; a CLIP
                that you name yourself always may.

        Returns:
            A model that can learn, predict and be saved.

        Raises:
            InputError: there is no such model, method, preset or setting, or a saved model is asked for
                another method or settings than its own.
            DamagedFileError: a file of the model was changed or cut off.

        Example:
            >>> from dpw import ContinualCLIP
            >>> ContinualCLIP.from_pretrained("mini", "diki").tasks
            []
        """
        if not isinstance(source, str | Path) or not str(source):
            raise InputError(f"source is {source!r}; give a model folder, 'mini', a folder or a hub name")
        folder, clip = Path(source), backbone or source
        if model_folder.is_model(folder):
            if settings or preset != "default":
                raise InputError(f"{folder} already has its settings; they cannot be changed after learning")
            allowed = allow_download or backbone is not None
            loaded = model_folder.load_model(
                folder,
                lambda kind, config, clip: kind(
                    Backbone.from_pretrained(backbone or clip, allow_download=allowed), config
                ),
            )
            if method is not None and method != loaded.name:
                raise InputError(f"{folder} was learned by method {loaded.name!r}, not {method!r}")
        else:
            name = method or "dpw"
            config = configure(name, preset, settings, clip=str(clip))
            loaded = METHODS[name](Backbone.from_pretrained(clip), config)
        model = cls(loaded)
        return model.to(device or default_device())

    def to(self, device: str | torch.device) -> "ContinualCLIP":
        """Move to a device, such as `"cpu"`, and give the model back.

        Example:
            >>> from dpw import ContinualCLIP
            >>> ContinualCLIP.from_pretrained("mini").to("cpu").method.backbone.device.type
            'cpu'
        """
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
        callback: TrainingCallback | None = None,
        should_stop: Callable[[], bool] = never,
        accelerator: Any = None,
    ) -> None:
        """Learn one more task; what was learned before is kept.

        Args:
            task: training images with class names, such as `Task.from_folder("birds")`.
            seed: decides initial values, the order of images and augmentation.
            checkpoint: a folder for the state of the training; the same call goes on from what is there.
            checkpoint_seconds: how often the state is written.
            callback: hears of every step.
            should_stop: asked after every step; True saves the state and raises `Interrupted`.
            accelerator: an Accelerator of your own, for several processes or mixed precision.

        Raises:
            InputError: the task is already learned, cannot be learned, or the checkpoint is of another one.
            DamagedFileError: the checkpoint was changed or cut off.
            StorageError: the checkpoint cannot be written.
            Interrupted: `should_stop` said so.

        Example:
            >>> import dpw
            >>> learner = dpw.ContinualCLIP.from_pretrained("mini", settings={"training.iterations": 1})
            >>> learner.learn(dpw.load_benchmark("mini", order=["signs"], shots=1).tasks[0])
            >>> learner.tasks
            ['signs']
        """
        if not isinstance(task, Task):
            raise InputError(
                f"task is a {type(task).__name__}; give a Task, such as Task.from_folder('birds')"
            )
        if not isinstance(seed, int) or seed < 0:
            raise InputError(f"seed is {seed!r}; give a whole number that is not negative")
        if not checkpoint_seconds >= 0:
            raise InputError(f"checkpoint_seconds is {checkpoint_seconds!r}; give a number of seconds")
        trainer = Trainer(
            cache=self.cache,
            accelerator=accelerator or make_accelerator(),
            seed=seed,
            checkpoint_seconds=checkpoint_seconds,
            callback=callback or TrainingCallback(),
            should_stop=should_stop,
        )
        state = None
        if checkpoint is not None:
            state = TrainingCheckpoint(Path(checkpoint), training_identity(self.method, task, seed))
        trainer.fit(self.method, task, state)

    def forget(self, name: str) -> None:
        """Remove a learned task; the others are not touched.

        Args:
            name: one of `tasks`.

        Raises:
            InputError: no such task is learned, or the method keeps all tasks in the same weights.

        Example:
            >>> import dpw
            >>> learner = dpw.ContinualCLIP.from_pretrained("mini", settings={"training.iterations": 1})
            >>> learner.learn(dpw.load_benchmark("mini", order=["signs"], shots=1).tasks[0])
            >>> learner.forget("signs")
            >>> learner.tasks
            []
        """
        if name not in self.tasks:
            known = ", ".join(self.tasks) or "none"
            raise InputError(f"no task called {name!r} is learned; learned are: {known}")
        self.method.forget(self.tasks.index(name))

    @property
    def tasks(self) -> list[str]:
        """Names of the learned tasks in order.

        Example:
            >>> from dpw import ContinualCLIP
            >>> ContinualCLIP.from_pretrained("mini").tasks
            []
        """
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
        template: str = "a photo of a {}.",
        top: int = 5,
    ) -> Prediction | list[Prediction]:
        """Classify images among all learned classes, or among given ones, learned or not.

        Args:
            images: one image (a path or a picture of Pillow's) or several.
            classes: choose between these names; all learned classes by default.
            template: the prompt for given classes, with {} for the name.
            top: how many classes a prediction names at most.

        Returns:
            A prediction for one image, or a list of them. An image that cannot be read gets an `error`, and
            the others are still answered.

        Raises:
            InputError: nothing is learned and no classes are given, or the classes or template make no sense.

        Example:
            >>> from PIL import Image
            >>> from dpw import ContinualCLIP
            >>> learner = ContinualCLIP.from_pretrained("mini")
            >>> answer = learner.predict(Image.new("RGB", (32, 32)), classes=["circle", "square"])
            >>> answer.label in ("circle", "square"), len(answer.alternatives)
            (True, 1)
        """
        if not isinstance(top, int) or isinstance(top, bool) or top < 1:
            raise InputError(f"top is {top!r}; give a whole number of at least 1")
        if not isinstance(images, str | Path | Image.Image | Sequence):
            raise InputError(f"images is a {type(images).__name__}; give a path, a picture or a list of them")
        question = self.question(classes, template)
        single = isinstance(images, str | Path | Image.Image)
        wanted: Sequence[ImageLike] = [images] if single else images  # type: ignore[assignment,list-item]
        answers = predict_images(self.method, self.cache, wanted, question, top)
        return answers[0] if single else answers

    def question(self, classes: Sequence[str] | None, template: str = "a photo of a {}.") -> Candidates:
        """Between which classes a prediction chooses: the given ones, or all learned ones.

        Args:
            classes: names of classes, each once; None for all learned ones.
            template: the prompt for given classes, with {} for the name.

        Returns:
            The candidates, as `Method.logits` takes them.

        Raises:
            InputError: nothing is learned and no classes are given, or the classes or template make no sense.

        Example:
            >>> from dpw import ContinualCLIP
            >>> ContinualCLIP.from_pretrained("mini").question(["crow", "swan"]).classes
            [('given', 'crow'), ('given', 'swan')]
        """
        if classes is not None:
            if isinstance(classes, str) or not all(isinstance(name, str) and name for name in classes):
                raise InputError(
                    f"classes is {classes!r:.80}; give a list of names, such as ['crow', 'swan']"
                )
            names = tuple(classes)
            if not names or len(set(names)) != len(names):
                raise InputError(f"give at least one class and each only once, not {list(names)}")
            if not isinstance(template, str) or template.count("{}") != 1:
                raise InputError(f"the template {template!r} needs exactly one {{}} for the class name")
            return Candidates.among(ClassGroup("given", names, (template,)))
        if not self.tasks:
            raise InputError("nothing is learned yet: learn a task first, or give classes to choose from")
        return Candidates.learned([task.group() for task in self.method.tasks])

    # --------------------------------------------------------------------------------- measure and keep

    def evaluate(
        self,
        tasks: Sequence[Task],
        *,
        setting: Setting = "task-incremental",
        merge_equal_names: bool = False,
        accelerator: Any = None,
    ) -> list[TestResult]:
        """Measure accuracy on the test images of tasks, learned or not.

        Args:
            tasks: tasks with test images.
            setting: `task-incremental` chooses among the task's own classes, `class-incremental` among all
                learned ones; a task that is not learned is always asked among its own.
            merge_equal_names: whether equally named classes of two tasks are one class.
            accelerator: an Accelerator of your own, to share the work among processes.

        Returns:
            For each task the accuracy in percent, the number of images, and how many were sent to each task.

        Raises:
            InputError: a task has no test images.

        Example:
            >>> import dpw
            >>> signs = dpw.load_benchmark("mini", order=["signs"], shots=1).tasks[0]
            >>> (test,) = dpw.ContinualCLIP.from_pretrained("mini").evaluate([signs])
            >>> test.images == len(signs.test), 0 <= test.accuracy <= 100
            (True, True)
        """
        if isinstance(tasks, Task) or not all(isinstance(task, Task) for task in tasks):
            raise InputError("give a list of tasks to evaluate, such as [task]")
        if setting not in get_args(Setting):
            raise InputError(f"setting is {setting!r}; give one of {', '.join(get_args(Setting))}")
        evaluator = Evaluator(self.cache, accelerator or make_accelerator(), setting, merge_equal_names)
        return evaluator.row(self.method, tasks)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a model folder that a new process can load without the training data.

        Args:
            folder: a new folder, or one with an older state of the same model; files of tasks that did not
                change stay as they are.

        Raises:
            InputError: there is a file where the folder should be.
            StorageError: the disk is full or the folder read-only.

        Example:
            >>> import tempfile
            >>> from dpw import ContinualCLIP
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     ContinualCLIP.from_pretrained("mini", "diki").save_pretrained(folder)
            ...     ContinualCLIP.from_pretrained(folder).method.name
            'diki'
        """
        model_folder.save_model(self.method, Path(folder))
