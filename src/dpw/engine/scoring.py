"""How well a model answers for the images of a folder: by class, by task, how surely, and for strangers."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from dpw.data.prompts import DEFAULT_TEMPLATE, readable
from dpw.data.root import image_files
from dpw.data.task import Task
from dpw.engine.calibration import Calibration, auroc, calibration, share_below, share_up_to, threshold_at
from dpw.engine.evaluation import task_test_split
from dpw.engine.prediction import Prediction
from dpw.engine.predictor import Predictor
from dpw.errors import InputError, a_number

TOP = 5
Watch = Callable[[Iterable[Prediction], Callable[[], int]], Iterator[Prediction]]


@dataclass(frozen=True)
class ScoredImage:
    """One image with its class and the answer it got; `right` and `in_top` are False if it was not read."""

    image: str
    truth: str
    label: str | None
    right: bool
    in_top: bool
    probability: float | None
    task: str | None
    confidence: float | None
    typicality: float | None
    error: str | None


@dataclass(frozen=True)
class Score:
    """Some images: how many were read, and what per cent was right, among the first five, of the right task.

    `task_found` is None where nobody asks for the task or the class was not learned.
    """

    name: str
    images: int
    accuracy: float | None
    top5: float | None
    task_found: float | None


@dataclass(frozen=True)
class Confusion:
    """How often images of each class (rows) got each answer (columns)."""

    classes: tuple[str, ...]
    answers: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    def mistakes(self) -> list[tuple[str, str, int]]:
        """Class, wrong answer and how often, the most frequent first."""
        found = [
            (name, answer, count)
            for name, row in zip(self.classes, self.counts, strict=True)
            for answer, count in zip(self.answers, row, strict=True)
            if count and answer != name
        ]
        return sorted(found, key=lambda one: -one[2])


@dataclass(frozen=True)
class Rejection:
    """How well images of other domains are told from the folder's own by their typicality.

    `rejected` and `false_alarms` are the per cent of strangers and of own images of typicality `level` or
    less, as `predict` would reject them; `rejected_alike` is that of strangers where just `level` of the own
    are.
    """

    folder: str
    images: int
    level: float
    auroc: float
    rejected: float
    false_alarms: float
    rejected_alike: float
    known: tuple[float, ...]
    strange: tuple[float, ...]


@dataclass(frozen=True)
class FolderScore:
    """Everything measured on one folder; percentages, except the calibration's shares."""

    folder: str
    model: str
    candidates: int
    overall: Score
    tasks: tuple[Score, ...]
    classes: tuple[Score, ...]
    confusion: Confusion
    calibration: Calibration
    rejection: Rejection | None
    images: tuple[ScoredImage, ...]

    @property
    def errors(self) -> list[str]:
        """Why some images could not be read."""
        return [image.error for image in self.images if image.error is not None]

    def as_json(self) -> dict[str, Any]:
        """Plain values that JSON knows."""
        return {**asdict(self), "errors": self.errors}


def _unwatched(answers: Iterable[Prediction], images: Callable[[], int]) -> Iterator[Prediction]:  # noqa: ARG001
    """Nobody looks on."""
    return iter(answers)


def score_folder(
    predictor: Predictor,
    folder: Path,
    *,
    classes: Sequence[str] | None = None,
    template: str = DEFAULT_TEMPLATE,
    strangers: Path | None = None,
    level: float = 0.05,
    watch: Watch = _unwatched,
) -> FolderScore:
    """Ask for every image of a folder once and count; `ContinualCLIP.evaluate_folder` says more."""
    if not 0 < a_number(level, "level") < 1:
        raise InputError(f"level = {level} must lie between 0 and 1, such as 0.05")
    task = Task.for_testing(folder)
    question = predictor.question(classes, template)
    _check_classes(folder, task.classes, [name for _, name in question.classes], predictor.tasks)
    split = task_test_split(task)
    count = len(split)
    files = (split.where(index) for index in range(count))
    answers = predictor.predict_stream(files, classes=classes, template=template, top=TOP)
    images = tuple(
        _scored(answer, task.classes[label])
        for answer, label in zip(watch(answers, lambda: count), split.labels, strict=True)
    )
    read = [image for image in images if image.error is None]
    if not read:
        raise InputError(f"none of the {len(images)} images of {folder} can be read: {images[0].error}")
    rejection = None
    if strangers is not None:
        given = predictor.predict_stream(image_files([strangers]), classes=classes, template=template, top=1)
        rejection = _rejection(read, list(given), strangers, level, predictor.method.name)
    owners = {name: _owners(predictor, task.name, name) for name in task.classes}
    return FolderScore(
        folder=str(folder),
        model=repr(predictor),
        candidates=len(question.classes),
        overall=_score("all", read, owners),
        tasks=_by_task(read, owners),
        classes=tuple(_score(name, [i for i in read if i.truth == name], owners) for name in task.classes),
        confusion=_confusion(task.classes, read),
        calibration=calibration([i.probability or 0.0 for i in read], [i.right for i in read]),
        rejection=rejection,
        images=images,
    )


def _check_classes(folder: Path, classes: Sequence[str], known: Sequence[str], tasks: Sequence[str]) -> None:
    """Every class of the folder must be one that can be answered."""
    names = {readable(name): name for name in known}
    for name in classes:
        if readable(name) not in names and name in tasks:
            raise InputError(f"{folder} holds {name!r}, which is a task, not a class: give {folder / name}")
        if readable(name) not in names:
            near = get_close_matches(readable(name), names, n=1)
            meant = f" (did you mean {names[near[0]]!r}?)" if near else ""
            shown = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
            raise InputError(
                f"{folder} has a class {name!r} that cannot be answered{meant}; answers are: {shown}; rename "
                "the folder, or say with classes (--classes) what to choose from"
            )


def _scored(answer: Prediction, truth: str) -> ScoredImage:
    """An answer beside the truth; a class is right by its name, whichever task it is of."""
    named = [name for name in (answer.label, *(label for label, _ in answer.alternatives)) if name]
    hits = [readable(name) == readable(truth) for name in named]
    return ScoredImage(
        image=answer.image,
        truth=truth,
        label=answer.label,
        right=hits[:1] == [True],
        in_top=any(hits[:TOP]),
        probability=answer.probability,
        task=answer.task,
        confidence=answer.confidence,
        typicality=answer.typicality,
        error=answer.error,
    )


def _owners(predictor: Predictor, folder: str, name: str) -> list[str]:
    """The learned tasks that know a class: the folder's namesake if it is one of them, otherwise all."""
    tasks = predictor.classes.items()
    found = [task for task, classes in tasks if readable(name) in map(readable, classes)]
    return [folder] if folder in found else found


def _score(name: str, images: Sequence[ScoredImage], owners: dict[str, list[str]]) -> Score:
    """Counts of some images that were read."""
    asked = [image for image in images if image.task is not None and owners[image.truth]]
    return Score(
        name=name,
        images=len(images),
        accuracy=_percent([image.right for image in images]),
        top5=_percent([image.in_top for image in images]),
        task_found=_percent([image.task in owners[image.truth] for image in asked]),
    )


def _by_task(images: Sequence[ScoredImage], owners: dict[str, list[str]]) -> tuple[Score, ...]:
    """Scores by the (first) learned task that knows an image's class."""
    names = dict.fromkeys(tasks[0] for tasks in owners.values() if tasks)
    parts = {name: [i for i in images if owners[i.truth][:1] == [name]] for name in names}
    return tuple(_score(name, part, owners) for name, part in parts.items())


def _percent(hits: Sequence[bool]) -> float | None:
    """The share of hits in per cent, or None of nothing."""
    return 100 * sum(hits) / len(hits) if hits else None


def _confusion(classes: Sequence[str], images: Sequence[ScoredImage]) -> Confusion:
    """Who was taken for whom; answers are called as the folder calls its classes."""
    own = {readable(name): name for name in classes}
    counts = Counter((image.truth, own.get(readable(str(image.label)), str(image.label))) for image in images)
    others = sorted({answer for _, answer in counts} - set(classes))
    answers = (*classes, *others)
    rows = tuple(tuple(counts[name, answer] for answer in answers) for name in classes)
    return Confusion(tuple(classes), answers, rows)


def _rejection(
    own: Sequence[ScoredImage], strangers: Sequence[Prediction], folder: Path, level: float, method: str
) -> Rejection:
    """Compare the typicality of strangers with that of the folder's own images."""
    read = [answer for answer in strangers if answer.error is None]
    if not read:
        raise InputError(f"none of the images of {folder} can be read; give a folder of strange images")
    known = tuple(image.typicality for image in own if image.typicality is not None)
    strange = tuple(answer.typicality for answer in read if answer.typicality is not None)
    if not known or not strange:
        raise InputError(
            f"method {method!r} does not say how typical an image is of what it learned; leave strangers out"
        )
    return Rejection(
        folder=str(folder),
        images=len(strange),
        level=level,
        auroc=100 * auroc(known, strange),
        rejected=100 * share_up_to(strange, level),
        false_alarms=100 * share_up_to(known, level),
        rejected_alike=100 * share_below(strange, threshold_at(known, level)),
        known=known,
        strange=strange,
    )
