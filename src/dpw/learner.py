"""The public face: a CLIP that keeps learning, and predicts without being told the task."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, get_args

import torch

from dpw.clip.backbone import Backbone
from dpw.clip.pretrained import find_clip
from dpw.data.pixels import PixelCache, cache_folder
from dpw.data.prompts import DEFAULT_TEMPLATE
from dpw.data.protocol import Setting
from dpw.data.task import Task, whole_task
from dpw.engine.callbacks import TrainingCallback, never
from dpw.engine.devices import default_device, make_accelerator
from dpw.engine.evaluation import Evaluator, TestResult
from dpw.engine.prediction import Prediction
from dpw.engine.predictor import Predictor
from dpw.engine.progress import usual_callback
from dpw.engine.scoring import FolderScore, score_folder
from dpw.engine.teaching import LearnReport, check_learning, teach
from dpw.engine.training import Trainer
from dpw.engine.wishes import Wishes
from dpw.errors import InputError, a_flag, a_path, a_text, refuse_no_settings, wrong
from dpw.methods import METHODS, Method, configure
from dpw.methods.catalog import FOLDER_METHOD
from dpw.storage import model_folder
from dpw.storage.hub import hub_model

__all__ = ["Backbone", "ContinualCLIP", "Prediction", "Setting", "Task", "TrainingCallback"]


class ContinualCLIP(Predictor):
    """A CLIP that learns tasks one after another and predicts without being told which task an image is from.

    Example:
        >>> import dpw
        >>> signs = dpw.load_benchmark("mini", order=["signs"], shots=1).tasks[0]
        >>> learner = dpw.ContinualCLIP.from_pretrained("mini", settings={"training.iterations": 1})
        >>> learned = learner.learn(signs)
        >>> answer = learner.predict(signs.test[0].image)
        >>> answer.task, answer.label in signs.classes
        ('signs', True)
    """

    def __init__(self, method: Method, cache: PixelCache | None = None) -> None:
        """Wrap a method that stands on a backbone; use `from_pretrained` instead."""
        super().__init__(method, cache or PixelCache(method.backbone.preprocessing, cache_folder()))

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
            source: a model folder or a model on the hub (`name/model`), or a CLIP: `mini`, a folder, a hub
                name.
            method: the method of a new model (`dpw-ridge` by default); a saved model knows its own.
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
        _refuse_wrong_types(source, method, preset, settings)
        backbone = None if backbone is None else a_path(backbone, "backbone")
        allow_download = a_flag(allow_download, "allow_download")
        folder, clip = hub_model(source) or Path(source), backbone or source
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
            find_clip(str(clip), model_too=backbone is None)
            name = method or FOLDER_METHOD
            suited = METHODS[name].folder_settings if name in METHODS and preset == "default" else {}
            config = configure(name, preset, {**suited, **(settings or {})}, clip=str(clip))
            loaded = METHODS[name](Backbone.from_pretrained(clip), config)
        return cls(loaded).to(default_device() if device is None else device)

    def to(self, device: str | torch.device) -> "ContinualCLIP":
        """Move to a device, such as `"cpu"`, and give the model back.

        Example:
            >>> from dpw import ContinualCLIP
            >>> ContinualCLIP.from_pretrained("mini").to("cpu").method.backbone.device.type
            'cpu'
        """
        try:
            torch.zeros(1, device=device).cpu()  # "meta" holds no numbers
            self.method.to(torch.device(device))
        except (RuntimeError, TypeError, ValueError, OverflowError, AssertionError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            reason = "PyTorch knows none of this name" if reason.startswith("Expected one of") else reason
            raise InputError(f"device {device!r:.80} cannot be used ({reason}); give 'cpu'") from error
        return self

    # ----------------------------------------------------------------------------------- learn and forget

    def learn(
        self,
        task: Task,
        *,
        learning_rate: float | None = None,
        steps: int | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        time_limit: float = 180.0,
        use_all: bool = False,
        again: bool = False,
        seed: int = 0,
        checkpoint: str | Path | None = None,
        checkpoint_seconds: float = 30.0,
        callback: TrainingCallback | None = None,
        should_stop: Callable[[], bool] = never,
        accelerator: Any = None,
    ) -> LearnReport:
        """Learn one more task; what was learned before is kept.

        Learning rate and number of steps are found on these images, unless you give them or the model was
        made with training settings of its own.

        Args:
            task: training images with class names, such as `Task.from_folder("birds")`.
            learning_rate, steps, epochs, batch_size: of Adam; give `steps` or `epochs`, not both.
            time_limit: seconds that finding and learning may take.
            use_all: learn from the test images too; then nothing says how well it went.
            again: learn a task of this name anew, from these images and classes alone; the old version is
                given up only when the new one is learned.
            seed: decides initial values, the order of images and augmentation.
            checkpoint, checkpoint_seconds: a folder from which the same call goes on, and its interval.
            callback, should_stop: hears of every step; True saves the state and raises `Interrupted`.
            accelerator: an Accelerator of your own, for several processes or mixed precision.

        Returns:
            What was learned, and how well on the images kept apart, beside plain CLIP and a linear probe.

        Raises:
            InputError: the task is already learned, cannot be learned, or the checkpoint is of another one.
            Interrupted: `should_stop` said so.

        Example:
            >>> import dpw
            >>> learner = dpw.ContinualCLIP.from_pretrained("mini", settings={"training.iterations": 1})
            >>> learner.learn(dpw.load_benchmark("mini", order=["signs"], shots=1).tasks[0]).task
            'signs'
        """
        wishes = Wishes(learning_rate, steps, epochs, batch_size, time_limit)
        check_learning(self.method, task, wishes, seed, checkpoint_seconds)
        _refuse_wrong_listeners(callback, should_stop)
        heard: dict[str, Any] = {"callback": callback or usual_callback(), "should_stop": should_stop}
        used = accelerator or make_accelerator(self.method.backbone.device)
        trainer = Trainer(self.cache, used, seed=seed, checkpoint_seconds=checkpoint_seconds, **heard)
        checkpoint = None if checkpoint is None else a_path(checkpoint, "checkpoint")
        wanted = whole_task(task) if a_flag(use_all, "use_all") else task
        with _old_version_away(self.method, task.name) if a_flag(again, "again") else nullcontext():
            return teach(trainer, self.method, wanted, wishes, checkpoint)

    def forget(self, name: str) -> None:
        """Remove a learned task; the others are not touched.

        Args:
            name: one of `tasks`.

        Raises:
            InputError: no such task is learned, or the method keeps all tasks in the same weights.

        Example:
            >>> import dpw
            >>> learner = dpw.ContinualCLIP.from_pretrained("mini", settings={"training.iterations": 1})
            >>> _ = learner.learn(dpw.load_benchmark("mini", order=["signs"], shots=1).tasks[0])
            >>> learner.forget("signs")
            >>> learner.tasks
            []
        """
        if a_text(name, "name") not in self.tasks:
            known = ", ".join(self.tasks) or "none"
            raise InputError(f"no task called {name!r} is learned; learned are: {known}")
        self.method.forget(self.tasks.index(name))

    # --------------------------------------------------------------------------------- measure and keep

    def evaluate(
        self,
        tasks: Sequence[Task | str | Path],
        *,
        setting: Setting = "task-incremental",
        merge_equal_names: bool = False,
        accelerator: Any = None,
    ) -> list[TestResult]:
        """Measure accuracy on the test images of tasks, learned or not.

        Args:
            tasks: tasks with test images, or folders. Of a `Task` only the test images count, which of an
                undivided folder are a fifth; of a folder itself all images do (`Task.for_testing`).
            setting: `task-incremental` chooses among the task's own classes, `class-incremental` among all
                learned ones, and a task that is not learned is asked among its own; `cross-domain` always
                chooses among the classes of all given tasks.
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
        if isinstance(tasks, Task | str | bytes | Path | Mapping) or not isinstance(tasks, Iterable):
            raise InputError("give a list of tasks or folders to evaluate, such as [task]")
        if a_text(setting, "setting") not in get_args(Setting):
            raise InputError(f"setting is {setting!r}; give one of {', '.join(get_args(Setting))}")
        merge = a_flag(merge_equal_names, "merge_equal_names")
        used = accelerator or make_accelerator(self.method.backbone.device)
        evaluator = Evaluator(self.cache, used, setting, merge)
        wanted = [task if isinstance(task, Task) else Task.for_testing(task) for task in tasks]
        if not wanted:
            raise InputError("there is no task to evaluate; give at least one")
        return evaluator.row(self.method, wanted)

    def evaluate_folder(
        self,
        folder: str | Path,
        *,
        classes: Sequence[str] | None = None,
        template: str = DEFAULT_TEMPLATE,
        strangers: str | Path | None = None,
        level: float = 0.05,
    ) -> FolderScore:
        """Ask for all images of a folder, as `predict` would answer, and say how well that goes.

        Args:
            folder: `CLASS/*.jpg`, or `train`, `val` and `test` with such folders, which are taken together.
                A class counts as right by its name.
            classes: choose between these names; all learned classes by default.
            template: the prompt for given classes, with {} for the name.
            strangers: a folder of images of other domains, to see whether they are told apart.
            level: the share of own images that may be taken for strangers.

        Returns:
            Accuracy by class and task, top 5, confusion, calibration, rejection of the strangers, and every
            image with its answer. `dpw.report.write_evaluation` makes a page of it.

        Raises:
            InputError: the folder has no classes, has one that cannot be answered, or no image can be read.

        Example:
            >>> import tempfile
            >>> from pathlib import Path
            >>> from PIL import Image
            >>> from dpw import ContinualCLIP
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     for name in ("circle", "square"):
            ...         (Path(folder) / name).mkdir()
            ...         Image.new("RGB", (32, 32)).save(Path(folder) / name / "black.png")
            ...     learner = ContinualCLIP.from_pretrained("mini")
            ...     score = learner.evaluate_folder(folder, classes=["circle", "square", "star"])
            >>> score.overall.images, score.overall.accuracy <= 50
            (2, True)
        """
        others = None if strangers is None else a_path(strangers, "strangers")
        own = a_path(folder, "folder")
        return score_folder(self, own, classes=classes, template=template, strangers=others, level=level)

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
        model_folder.save_model(self.method, a_path(folder, "folder"))


@contextmanager
def _old_version_away(method: Method, name: str) -> Iterator[None]:
    """Forget a task of this name, if there is one, and have it back if no new version of it was learned."""
    if name not in method.task_names:
        yield
        return
    index = method.index_of(name)
    task, module = method.tasks[index], method.bank.slot(index)
    method.forget(index)
    try:
        yield
    finally:
        if name not in method.task_names:
            method.tasks.insert(index, task)
            method.bank.insert(index, module)
            method.clear_features()


def _refuse_wrong_types(
    source: str | Path, method: str | None, preset: str, settings: Mapping[str, Any] | None
) -> None:
    """Say in a sentence what of a model's beginning is no name, path or mapping."""
    if not isinstance(source, str | Path) or not str(source):
        raise InputError(f"source is {source!r}; give a model folder, 'mini', a folder or a hub name")
    refuse_no_settings(settings)
    a_text(preset, "preset")
    a_text("" if method is None else method, "method")


def _refuse_wrong_listeners(callback: Any, should_stop: Any) -> None:
    """Say in a sentence what can neither be told of a step nor be asked to stop."""
    if not callable(should_stop) or not isinstance(callback, TrainingCallback | None):
        given = (should_stop, callback)
        raise wrong("should_stop or callback", given, "a function and a TrainingCallback")
