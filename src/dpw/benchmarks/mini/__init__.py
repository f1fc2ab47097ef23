"""The benchmark `mini`: eight small domains, drawn on the fly, and real handwriting among them."""

import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from dpw.benchmarks.mini import aerial, chalk, digits, flags, materials, neon, portraits, signs
from dpw.benchmarks.mini.canvas import Pixels
from dpw.benchmarks.mini.identity import picture_key
from dpw.data.task import Split, Task

__all__ = ["IMAGES_PER_CLASS", "tasks"]

IMAGES_PER_CLASS = {"train": 32, "val": 8, "test": 16}
PROTOCOL = "coop"
_DRAWING = threading.Lock()  # drawing is Python from end to end: two threads at it take twice the time of one


class Domain(NamedTuple):
    """A drawn domain: what its classes are called and how one picture of a class is drawn."""

    name: str
    classes: tuple[str, ...]
    templates: tuple[str, ...]
    draw: Callable[[str, np.random.Generator], Pixels]


DOMAINS = (
    Domain("materials", tuple(materials.CLASSES), materials.TEMPLATES, materials.draw),
    Domain("flags", flags.CLASSES, flags.TEMPLATES, flags.draw),
    Domain("portraits", portraits.CLASSES, portraits.TEMPLATES, portraits.draw),
    Domain("signs", signs.CLASSES, signs.TEMPLATES, signs.draw),
    Domain("aerial", aerial.CLASSES, aerial.TEMPLATES, aerial.draw),
    Domain("chalk", chalk.CLASSES, chalk.TEMPLATES, chalk.draw),
    Domain("neon", neon.CLASSES, neon.TEMPLATES, neon.draw),
)


def tasks(seed: int = 0) -> list[Task]:
    """Give all tasks; the same seed gives the same pixels, and no picture is in two splits."""
    drawn = [_drawn_task(domain, seed) for domain in DOMAINS]
    return [*drawn[:5], _digits_task(seed), *drawn[5:]]


class DrawnImages:
    """The pictures of one split of a domain: each is drawn from its own generator when first looked at."""

    def __init__(self, domain: Domain, split: str, seed: int) -> None:
        """Decide what will be drawn, without drawing."""
        self.domain = domain
        self.split = split
        self.labels = [label for label in range(len(domain.classes)) for _ in range(IMAGES_PER_CLASS[split])]
        self._origin = [seed, DOMAINS.index(domain), list(IMAGES_PER_CLASS).index(split)]
        self._drawn: dict[int, Pixels] = {}

    def __len__(self) -> int:
        """How many pictures there are."""
        return len(self.labels)

    def pixels(self, index: int) -> Pixels:
        """Draw one picture, or give the one drawn before."""
        with _DRAWING:
            if index not in self._drawn:
                rng = np.random.default_rng([*self._origin, index])
                self._drawn[index] = self.domain.draw(self.domain.classes[self.labels[index]], rng)
            return self._drawn[index]

    def image(self, index: int) -> Image.Image:
        """Give one picture as an RGB image."""
        return Image.fromarray(self.pixels(index))

    def key(self, index: int) -> str:
        """Identify a picture without drawing it."""
        return picture_key(*self._origin, index)

    def where(self, index: int) -> str:
        """Give the position, such as `flags/train[17]`."""
        return f"{self.domain.name}/{self.split}[{index}]"


def _drawn_task(domain: Domain, seed: int) -> Task:
    """Make a task of a drawn domain."""
    sources = {split: DrawnImages(domain, split, seed) for split in IMAGES_PER_CLASS}
    splits = {split: Split(source, source.labels) for split, source in sources.items()}
    return Task(domain.name, domain.classes, domain.templates, **splits, protocol=PROTOCOL)


def _digits_task(seed: int) -> Task:
    """Deal the real digits out to the three splits."""
    images, labels = digits.handwriting()
    chosen: dict[str, list[npt.NDArray[np.int64]]] = {split: [] for split in IMAGES_PER_CLASS}
    rng = np.random.default_rng([seed, len(DOMAINS)])
    for label in range(len(digits.CLASSES)):
        order, start = rng.permutation(np.flatnonzero(labels == label)), 0
        for split, count in IMAGES_PER_CLASS.items():
            chosen[split].append(order[start : start + count])
            start += count
    splits = {}
    for split, rows in chosen.items():
        picked = np.concatenate(rows)
        pages = np.stack(
            [digits.placed(images[row], np.random.default_rng([seed, int(row)])) for row in picked]
        )
        splits[split] = Split.from_arrays(pages, labels[picked].tolist(), f"digits/{split}")
    return Task("digits", digits.CLASSES, digits.TEMPLATES, **splits, protocol=PROTOCOL)
