"""Captioned pictures from outside the benchmark, for methods that look at other data than the tasks'.

Flat painted things in front of a landscape: a style of no task, and nothing that is a class of any.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image

from dpw.benchmarks.benchmark import Captioned
from dpw.benchmarks.mini.canvas import (
    COLOURS,
    Colour,
    Picture,
    Pixels,
    Pose,
    finish,
    grid,
    mask_of,
    move,
    paint,
    plain,
    vary,
)
from dpw.benchmarks.mini.identity import picture_key
from dpw.benchmarks.mini.neon import CLASSES as NEON_CLASSES
from dpw.benchmarks.mini.shapes import OBJECTS
from dpw.data.split import Split

PICTURES = 512

# The neon signs are the only task that shows these things.
THINGS = tuple(name for name in OBJECTS if name not in NEON_CLASSES)
PLACES: dict[str, tuple[Colour, Colour]] = {
    "on grass": ((150, 205, 245), (95, 175, 70)),
    "at the sea": ((185, 225, 250), (25, 95, 165)),
    "at night": ((12, 14, 45), (22, 26, 60)),
    "at sunset": ((250, 150, 70), (70, 40, 80)),
    "in a room": ((230, 215, 190), (130, 90, 60)),
}
SENTENCES = ("a photo of {}.", "a picture of {}.", "{}.", "a drawing of {}.")


class Subject(NamedTuple):
    """What a picture shows, and the sentence that says so."""

    thing: str
    colour: str
    place: str
    sentence: str

    @property
    def caption(self) -> str:
        """The sentence in full."""
        article = "an" if self.colour[0] in "aeiou" else "a"
        return self.sentence.format(f"{article} {self.colour} {self.thing} {self.place}")


class PaintedImages:
    """Pictures of decided subjects; each is painted when first looked at."""

    def __init__(self, seed: int, count: int) -> None:
        """Decide what will be painted, without painting."""
        self._seed = seed
        self.subjects = [_subject(self._rng(index, 0)) for index in range(count)]
        self._painted: dict[int, Pixels] = {}

    def __len__(self) -> int:
        """How many pictures there are."""
        return len(self.subjects)

    def pixels(self, index: int) -> Pixels:
        """Paint one picture, or give the one painted before."""
        if index not in self._painted:
            self._painted[index] = _paint(self.subjects[index], self._rng(index, 1))
        return self._painted[index]

    def image(self, index: int) -> Image.Image:
        """Give one picture as an RGB image."""
        return Image.fromarray(self.pixels(index))

    def key(self, index: int) -> str:
        """Identify a picture without painting it."""
        return picture_key("outside", self._seed, index)

    def where(self, index: int) -> str:
        """Give the position, such as `outside[17]`."""
        return f"outside[{index}]"

    def _rng(self, index: int, purpose: int) -> np.random.Generator:
        """A generator of one picture's own; no task draws from the same ones."""
        return np.random.default_rng([self._seed, 1_000_003, purpose, index])


def captioned(seed: int = 0, count: int = PICTURES) -> Captioned:
    """Give pictures and what each of them shows; the same seed gives the same."""
    source = PaintedImages(seed, count)
    captions = tuple(subject.caption for subject in source.subjects)
    return Captioned(Split(source, [0] * count), captions)


def _subject(rng: np.random.Generator) -> Subject:
    """Decide what one picture shows."""
    colours, places = tuple(COLOURS), tuple(PLACES)
    return Subject(_pick(rng, THINGS), _pick(rng, colours), _pick(rng, places), _pick(rng, SENTENCES))


def _pick(rng: np.random.Generator, options: Sequence[str]) -> str:
    """Draw one of the options."""
    return options[int(rng.integers(len(options)))]


def _paint(subject: Subject, rng: np.random.Generator) -> Pixels:
    """Paint one thing somewhere."""
    picture = _backdrop(subject.place, rng)
    pose = Pose(
        centre=(rng.uniform(-0.3, 0.3), rng.uniform(-0.3, 0.3)),
        size=rng.uniform(0.4, 0.8),
        angle=rng.normal(0, 10),
    )
    colours = {
        "body": vary(rng, COLOURS[subject.colour]),
        "dark": vary(rng, (50, 45, 45), 12),
        "light": vary(rng, (240, 235, 220), 8),
    }
    for part in OBJECTS[subject.thing]:
        paint(picture, mask_of([move(part.points, *pose)]), colours[part.role])
    return finish(picture, rng, 4)


def _backdrop(place: str, rng: np.random.Generator) -> Picture:
    """Paint the sky and the ground of a place."""
    sky, ground = PLACES[place]
    picture = plain(vary(rng, sky, 10))
    _, y = grid()
    paint(picture, y > rng.uniform(0, 0.5), vary(rng, ground, 10))
    return picture
