"""What the world is made of: concepts, colours, places and styles, and the integer code of a scene."""

from typing import NamedTuple

from dpw.benchmarks.mini.canvas import COLOURS
from dpw.benchmarks.mini.emblems import FLAGS, SIGNS
from dpw.benchmarks.mini.expressions import EXPRESSIONS
from dpw.benchmarks.mini.patterns import PATTERNS
from dpw.benchmarks.mini.shapes import ARROWS, OBJECTS

COLOUR_NAMES = tuple(COLOURS)
TEXTURES = tuple(PATTERNS)
LAND = ("forest", "river", "lake", "highway", "farmland", "town", "beach", "desert", "island", "snow")
LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
DIGITS = tuple("0123456789")
BACKDROPS = ("plain", "meadow", "sea", "night", "desert", "snow", "room", "sunset")
STYLES = ("flat", "outline", "sketch", "silhouette", "soft", "grainy")
SIZES = ("small", "medium", "large")

CONCEPTS: tuple[tuple[str, str], ...] = (
    *(("object", name) for name in OBJECTS),
    *(("arrow", name) for name in ARROWS),
    *(("texture", name) for name in TEXTURES),
    *(("flag", name) for name in FLAGS),
    *(("sign", name) for name in SIGNS),
    *(("land", name) for name in LAND),
    *(("face", name) for name in EXPRESSIONS),
    *(("letter", name) for name in LETTERS),
    *(("digit", name) for name in DIGITS),
)
FAMILY_SHARES = {
    "object": 0.36,
    "arrow": 0.04,
    "texture": 0.12,
    "flag": 0.08,
    "sign": 0.08,
    "land": 0.09,
    "face": 0.08,
    "letter": 0.09,
    "digit": 0.06,
}


class Scene(NamedTuple):
    """Everything a caption may say about a picture, as indices into the tuples above; -1 means unsaid."""

    concept: int
    colour: int = -1
    second: int = -1
    texture: int = -1
    count: int = -1
    backdrop: int = -1
    style: int = -1
    size: int = -1

    @property
    def family(self) -> str:
        """Which kind of thing is shown."""
        return CONCEPTS[self.concept][0]

    @property
    def name(self) -> str:
        """The name of the thing shown."""
        return CONCEPTS[self.concept][1]


def held_out(concept: int, colour: int) -> bool:
    """Say whether this colour is never shown on this object in pretraining (about one pair in eight)."""
    return CONCEPTS[concept][0] == "object" and (concept * 5 + colour * 3) % 8 == 0
