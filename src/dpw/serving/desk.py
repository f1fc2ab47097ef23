"""What `dpw play` does when a button is pressed: ask, compare, explain, teach, forget; without any page."""

import queue
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpw.analysis.explain import Explanation, explain
from dpw.data.task import Task
from dpw.engine.callbacks import TrainingCallback
from dpw.engine.prediction import Prediction
from dpw.engine.predictor import Predictor
from dpw.engine.teaching import LearnReport
from dpw.errors import DpwError, InputError
from dpw.learner import ContinualCLIP
from dpw.methods import METHODS, configure
from dpw.serving.served import ServedModel, load_served
from dpw.serving.watching import ModelWatcher
from dpw.storage import model_folder, unfinished
from dpw.storage.lock import writing


@dataclass(frozen=True)
class Answer:
    """What the model says about one image, and what plain CLIP says of the same classes."""

    model: Prediction
    zero_shot: Prediction


@dataclass(frozen=True)
class Progress:
    """How far a teaching is; `done` with the last one, whose sentences say how it went."""

    share: float
    sentence: str
    done: bool = False


class Desk:
    """One model and those who play with it: one at a time computes, one at a time teaches."""

    def __init__(
        self, source: str, *, read_only: bool = False, load: Callable[[], ServedModel] | None = None
    ) -> None:
        """Load a model folder, or a CLIP, which can only be asked."""
        self.source, self.folder = source, Path(source)
        self.watcher = ModelWatcher(self.folder, load or (lambda: load_served(source)), seconds=1)
        self.read_only = read_only or not model_folder.is_model(self.folder)
        self._computing, self._teaching = threading.Lock(), threading.Lock()
        self._ended = threading.Event()

    @property
    def learner(self) -> ContinualCLIP:
        """The newest good state of the model."""
        self.watcher.look()
        return self.watcher.current.learner

    def end(self) -> None:
        """Stop a teaching that is going on; nothing of it is kept."""
        self._ended.set()

    # ---------------------------------------------------------------------------------------------- asking

    def ask(
        self, images: Sequence[str], classes: Sequence[str] | None = None, unknown: float | None = None
    ) -> list[Answer]:
        """Answers for image files, beside those of plain CLIP.

        Raises:
            InputError: nothing is learned and no classes are given, or the model cannot tell unknown images.
        """
        learner = self.learner
        names = tuple(classes) if classes else None
        every = list(dict.fromkeys(name for known in learner.classes.values() for name in known))
        with self._computing:
            own = learner.predict(list(images), classes=names, top=5, unknown=unknown)
            plain = self._plain(learner).predict(list(images), classes=names or every, top=5)
        return [Answer(*pair) for pair in zip(own, plain, strict=True)]

    def _plain(self, learner: ContinualCLIP) -> Predictor:
        """The CLIP below the model, as if nothing had been learned."""
        config = configure("zero-shot", clip=learner.method.backbone.reference)
        return Predictor(METHODS["zero-shot"](learner.method.backbone, config).eval(), learner.cache)

    def explain(self, image: str, classes: Sequence[str] | None = None) -> Explanation:
        """Why an image got its answer.

        Raises:
            InputError: the image cannot be read, or the question makes no sense.
        """
        with self._computing:
            return explain(self.learner, image, classes=tuple(classes) if classes else None, top=5)

    def tasks(self) -> list[dict[str, Any]]:
        """The learned tasks with their classes and how they were learned."""
        return [
            {"name": task.name, "classes": list(task.classes), "details": task.details}
            for task in self.learner.method.tasks
        ]

    # ------------------------------------------------------------------------------- teaching and forgetting

    def teach(
        self, name: str, images: Mapping[str, Sequence[str]], *, again: bool = False, seconds: float = 180.0
    ) -> Iterator[Progress]:
        """Learn a task from image files by class, step by step; it is committed whole or not at all.

        Raises:
            InputError: the task has no name or no images, is learned already, or somebody else is teaching.
        """
        self._refuse_changes()
        if not name.strip():
            raise InputError("the task has no name: give it one, such as birds")
        if name.strip() in self.learner.tasks and not again:
            raise InputError(
                f"task {name.strip()!r} is already learned: tick 'Replace a task of this name', "
                "or choose another name"
            )
        if not any(images.values()):
            raise InputError("there is no image to learn from: add a class with its images first")
        if not self._teaching.acquire(blocking=False):
            raise InputError("somebody is teaching this model right now: try again when that is done")
        told: queue.Queue[Progress | DpwError | None] = queue.Queue()
        wishes = {"again": again, "time_limit": seconds}
        work = threading.Thread(target=self._teach, args=(name.strip(), images, wishes, told), daemon=True)
        work.start()
        while (one := told.get()) is not None:
            if isinstance(one, DpwError):
                raise one
            yield one

    def _teach(
        self,
        name: str,
        images: Mapping[str, Sequence[str]],
        wishes: dict[str, Any],
        told: "queue.Queue[Progress | DpwError | None]",
    ) -> None:
        """The work itself, in a thread of its own, on a copy of the model that nobody is asking."""
        with tempfile.TemporaryDirectory(prefix="dpw-play-") as temporary:
            try:
                learned = self._learn(_laid_out(Path(temporary), images), name, wishes, told)
                told.put(Progress(1.0, ". ".join(learned.sentences()), done=True))
            except (DpwError, OSError) as error:
                told.put(InputError(str(error).replace(f"{temporary}/", "")))  # names as users know them
            finally:
                self._teaching.release()
                told.put(None)

    def _learn(
        self, images: Path, name: str, wishes: dict[str, Any], told: "queue.Queue[Any]"
    ) -> LearnReport:
        """Learn a folder of images and commit it."""
        with writing(self.folder):
            task = Task.from_folder(images, name=name)
            unfinished.refuse_foreign(self.folder)
            learner = self.watcher.load().learner  # another object than the one that answers
            told.put(Progress(0.0, f"finding out how to learn {name}, which takes the longest"))
            learned = learner.learn(task, callback=_Telling(told), should_stop=self._ended.is_set, **wishes)
            learner.save_pretrained(self.folder)
        return learned

    def forget(self, name: str) -> str:
        """Remove a task; gives a sentence.

        Raises:
            InputError: there is no such task, or the method cannot forget one alone.
        """
        self._refuse_changes()
        model_folder.remove_task(self.folder, name)
        return f"forgot {name}; left: {', '.join(self.learner.tasks) or 'nothing'}"

    def _refuse_changes(self) -> None:
        """Refuse to change what is only shown."""
        if self.read_only:
            raise InputError(f"{self.source} is only shown here: it cannot be taught or changed")


class _Telling(TrainingCallback):
    """Passes on how far a training is."""

    def __init__(self, told: "queue.Queue[Progress | DpwError | None]") -> None:
        """Tell a queue."""
        self.told, self.steps = told, 1

    def on_begin(self, task: str, steps: int, done: int) -> None:
        """Remember how many steps there will be."""
        self.steps = max(steps, 1)
        self.told.put(Progress(done / self.steps, f"learning {task}: {steps} steps"))

    def on_step(self, task: str, epoch: int, epochs: int, step: int, loss: float) -> None:
        """Tell every step."""
        sentence = (
            f"learning {task}: epoch {epoch + 1} of {epochs}, step {step} of {self.steps}, loss {loss:.3f}"
        )
        self.told.put(Progress(step / self.steps, sentence))


def _laid_out(folder: Path, images: Mapping[str, Sequence[str]]) -> Path:
    """Uploaded files as a folder of classes."""
    for name, files in images.items():
        if not name.strip() or "/" in name or "\\" in name or name.strip().startswith("."):
            raise InputError(f"{name!r} cannot be the name of a class: give a plain word, such as crow")
        target = folder / name.strip()
        target.mkdir(parents=True, exist_ok=True)
        for index, file in enumerate(files):
            shutil.copyfile(file, target / f"{index:04d}-{Path(file).name}")
    return folder
