"""Predictions of whole folders in a CSV file that a later call continues."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from dpw.engine.prediction import Prediction
from dpw.errors import InputError
from dpw.methods.base import Method
from dpw.methods.candidates import Candidates
from dpw.storage.csv_file import CsvFile, csv_cell
from dpw.storage.model_folder import digest

FIRST = ("image", "class", "probability", "task", "confidence", "typicality", "error")
IMAGE, ERROR = FIRST.index("image"), FIRST.index("error")


class PredictionTable:
    """One row for each image, in the order of the images; `model` in the last column says who answered.

    A file that exists is continued after its last complete line, provided that the same model was asked the
    same question and the images begin with those of the file.
    """

    def __init__(
        self, path: Path, method: Method, question: Candidates, top: int, unknown: float | None = None
    ) -> None:
        """Rows for predictions of a method, each naming `top` classes, strangers rejected at `unknown`."""
        more = [f"{name}_{rank}" for rank in range(2, top + 1) for name in ("class", "probability")]
        self.file = CsvFile(path, [*FIRST, *more, "model"])
        self.top, self.model = top, _identity(method, question, unknown)
        self.answered = self.failed = self.found = 0

    def unanswered(self, images: Iterable[Path]) -> Iterator[Path]:
        """The images that have no row yet; rows that are there are checked against the images before."""
        remaining = iter(images)
        for row in self.file.rows():
            self._check(row, next(remaining, None))
            self.found += 1
            self.failed += bool(row[ERROR])
        self.answered = self.found
        self.file.begin()
        return remaining

    def add(self, answer: Prediction) -> None:
        """Write the answer for the next image."""
        names = ("image", "label", "probability", "task", "confidence", "typicality", "error")
        more: list[str | float | None] = [cell for pair in answer.alternatives for cell in pair]
        more += [None] * (2 * (self.top - 1) - len(more))
        self.file.add([*(getattr(answer, name) for name in names), *more, self.model])
        self.answered += 1
        self.failed += answer.error is not None

    def _check(self, row: list[str], image: Path | None) -> None:
        """Refuse to continue what another model or other images began."""
        path = self.file.path
        if row[-1] != self.model:
            raise InputError(
                f"{path} was begun by another model or with another question (it says {row[-1]}, this is "
                f"{self.model}): choose another file"
            )
        if image is None or row[IMAGE] != csv_cell(str(image)):
            wanted = "there is no such image now" if image is None else f"now {image} comes there"
            raise InputError(
                f"{path} has {row[IMAGE]} in line {self.found + 2}, but {wanted}: give the same images again "
                "or choose another file"
            )


def _identity(method: Method, question: Candidates, unknown: float | None) -> str:
    """What decides the answers: the model, the classes it chooses between, and whom it calls unknown."""
    strangers = [] if unknown is None else [unknown]
    content = json.dumps([digest(method), asdict(question), *strangers], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:12]
