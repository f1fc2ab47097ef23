"""A model that answers over HTTP: loaded whole, its text features filled, told apart by a revision."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dpw.clip.preprocessing import Pixels
from dpw.data.pixels import PixelCache, read_images
from dpw.data.prompts import DEFAULT_TEMPLATE
from dpw.engine.invariance import BatchInvariance
from dpw.engine.prediction import Prediction, predict_pixels
from dpw.errors import InputError
from dpw.learner import ContinualCLIP
from dpw.methods.candidates import Candidates
from dpw.methods.parts.weighted import WeightedAnswers
from dpw.storage import files
from dpw.storage.model_json import FILE, is_model

FOREIGN = 256  # lists of classes given by clients whose text features are kept


@dataclass(frozen=True)
class Question:
    """What is asked about images, as `dpw predict` asks it.

    Attributes:
        classes: choose between these; all learned classes where it is None.
        template: the prompt for given classes.
        top: how many classes an answer names.
        unknown: answer "unknown" for images less typical than all but this share of a task's own.
    """

    classes: tuple[str, ...] | None = None
    template: str = DEFAULT_TEMPLATE
    top: int = 1
    unknown: float | None = None


class ServedModel:
    """One state of a model, which never changes; a newer one is another object."""

    def __init__(self, learner: ContinualCLIP, revision: str) -> None:
        """Serve a learner; `revision` names its state."""
        self.learner, self.revision = learner, revision
        self.method = learner.method.eval()
        self.cache = PixelCache(learner.cache.preprocessing, folder=None)  # strangers' images are not kept
        self.loaded = time.time()
        self._foreign: set[tuple[object, str]] = set()  # questions about given classes whose texts are kept

    @property
    def votes(self) -> bool:
        """Whether all images of a batch share one decision, so that requests must not be mixed."""
        return getattr(self.method.config, "decision", "per-image") == "batch-vote"

    def candidates(self, question: Question) -> Candidates:
        """Between which classes to choose, or the reason why that cannot be asked.

        Raises:
            InputError: as `ContinualCLIP.predict`.
        """
        if question.top < 1:
            raise InputError(f"top = {question.top} names no class; give a whole number of at least 1")
        if question.unknown is not None and not 0 < question.unknown < 1:
            raise InputError(f"unknown = {question.unknown} is no share of images: give one in (0, 1)")
        if question.classes is None and question.template != DEFAULT_TEMPLATE:
            raise InputError("template has no effect without classes: learned tasks have their own")
        return self.learner.question(question.classes, question.template)

    def read(self, images: Sequence[bytes], names: Sequence[str]) -> tuple[Pixels, dict[int, InputError]]:
        """Decode images; those that cannot be read have their error by row."""
        return read_images(self.cache, images, names)

    def answer(self, pixels: Pixels, names: list[str], question: Question) -> list[Prediction]:
        """Answers for decoded images, each as if it had been asked alone."""
        self._make_room(question)
        batch = torch.from_numpy(pixels).to(self.method.backbone.device)
        candidates = self.candidates(question)
        return predict_pixels(self.method, batch, names, candidates, question.top, question.unknown)

    def _make_room(self, question: Question) -> None:
        """Drop kept texts when clients have asked about too many lists of classes."""
        if question.classes is None or (question.classes, question.template) in self._foreign:
            return
        if len(self._foreign) >= FOREIGN:
            self._foreign.clear()
            self.method.clear_features()
            self.warm()
        self._foreign.add((question.classes, question.template))

    def describe(self) -> dict[str, Any]:
        """What the model is and knows, as plain values."""
        backbone = self.method.backbone
        tasks = [
            {"name": task.name, "classes": list(task.classes), "templates": list(task.templates)}
            for task in self.method.tasks
        ]
        return {
            "model": self.revision,
            "method": self.method.name,
            "clip": Path(backbone.reference).name,
            "device": str(backbone.device),
            "tasks": tasks,
        }

    def warm(self) -> None:
        """Fill what answers about learned classes need, so that the first is as quick as the thousandth."""
        if not self.learner.tasks:
            return
        candidates = self.learner.question(None)
        self._fill_texts(candidates)
        height, width = self.cache.size
        noise = np.random.default_rng(0).integers(0, 256, (2, 3, height, width), dtype=np.uint8)
        self.answer(noise, ["warm", "up"], Question())

    def _fill_texts(self, candidates: Candidates) -> None:
        """Class features at every weight an image may get, for methods whose texts depend on it."""
        answers = self.method.answers
        if not isinstance(answers, WeightedAnswers) or hasattr(self.method, "heads"):
            return
        if answers.config.text_weight != "grid":
            return
        points, gates = answers.config.grid_points, answers.router.gates()
        middle = (torch.arange(points, dtype=torch.float64) + 0.5) / points
        blank = torch.zeros(points, self.method.backbone.feature_width, device=self.method.backbone.device)
        with torch.inference_mode(), BatchInvariance():
            for group in candidates.groups:
                index = self.method.index_of(group.name)
                edge = (float(gates[index]) * points) // 1  # both sides of the gate may fall into one cell
                below, above = middle < gates[index], middle >= gates[index]
                cell = torch.arange(points) == edge
                for rows, filtered in ((below | cell, True), (above | cell, False)):
                    weight = middle[rows]
                    cut = torch.full((len(weight),), filtered)
                    answers.texts.cosines(blank[rows], index, group, weight, cut)


def load_served(
    source: str | Path,
    *,
    backbone: str | None = None,
    device: str | None = None,
    allow_download: bool = False,
) -> ServedModel:
    """Load a model whole and fill its text features.

    Args:
        source: a model folder, or a CLIP that has learned nothing.
        backbone, device, allow_download: as for `ContinualCLIP.from_pretrained`.

    Returns:
        A model ready to answer.

    Raises:
        InputError: there is no such model, or it was changed while it was read.
        DamagedFileError: a file of it is damaged.

    Example:
        >>> from dpw.serving.served import Question, load_served
        >>> load_served("mini").candidates(Question(classes=("crow", "swan"))).classes
        [('given', 'crow'), ('given', 'swan')]
    """
    before = revision_of(Path(source))
    learner = ContinualCLIP.from_pretrained(
        source, backbone=backbone, device=device, allow_download=allow_download
    )
    if revision_of(Path(source)) != before:
        raise InputError(f"{source} was changed while it was read: read it again")
    model = ServedModel(learner, before)
    model.warm()
    return model


def revision_of(source: Path) -> str:
    """A short name for the state of a model folder; `clip` for what is none."""
    if not is_model(source):
        return "clip"
    if (source / FILE).stat().st_size > files.MAX_JSON:
        return "too large"  # reading it says so
    return files.file_digest(source / FILE)[:16]
