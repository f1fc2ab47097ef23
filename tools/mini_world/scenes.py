"""Draw a scene: first decide what is in it, then paint it."""

import numpy as np
from PIL import Image, ImageFilter

from dpw.benchmarks.mini.canvas import (
    COLOURS,
    SIDE,
    Colour,
    Picture,
    Pixels,
    finish,
    grid,
    line_mask,
    mask_of,
    mix,
    move,
    paint,
    plain,
    smooth_noise,
    vary,
)
from dpw.benchmarks.mini.emblems import FLAGS, SIGNS, Patch
from dpw.benchmarks.mini.expressions import features
from dpw.benchmarks.mini.patterns import PATTERNS
from dpw.benchmarks.mini.shapes import ARROWS, OBJECTS, Part
from mini_world.glyphs import glyph_mask
from mini_world.land import draw_land
from mini_world.vocabulary import (
    BACKDROPS,
    COLOUR_NAMES,
    CONCEPTS,
    FAMILY_SHARES,
    SIZES,
    STYLES,
    TEXTURES,
    Scene,
    held_out,
)

RADII = {"small": (0.28, 0.42), "medium": (0.48, 0.66), "large": (0.72, 0.92)}


def _index(rng: np.random.Generator, options: tuple[str, ...]) -> int:
    """Draw the index of one of the options."""
    return int(rng.integers(len(options)))


def draw_scene(rng: np.random.Generator, unseen: bool = False) -> Scene:
    """Decide what a picture shows; `unseen` asks for a held-out pair of object and colour."""
    family = "object" if unseen else str(rng.choice(list(FAMILY_SHARES), p=list(FAMILY_SHARES.values())))
    members = [i for i, (kind, _) in enumerate(CONCEPTS) if kind == family]
    concept, colour, second = int(rng.choice(members)), _index(rng, COLOUR_NAMES), _index(rng, COLOUR_NAMES)
    if second == colour:
        second = (colour + 1 + int(rng.integers(len(COLOUR_NAMES) - 1))) % len(COLOUR_NAMES)
    if family == "object":
        if held_out(concept, colour) != unseen:
            return draw_scene(rng, unseen)
        return _object_scene(rng, concept, colour)
    if family == "texture":
        return Scene(concept, colour, second, texture=TEXTURES.index(CONCEPTS[concept][1]))
    if family in ("letter", "digit", "arrow", "face"):
        return Scene(concept, colour, second, size=1 + int(rng.integers(2)))
    return Scene(concept)


def _object_scene(rng: np.random.Generator, concept: int, colour: int) -> Scene:
    """Place one to four equal objects somewhere, in some style, perhaps with a pattern."""
    style = 0 if rng.random() < 0.4 else _index(rng, STYLES)
    texture = _index(rng, TEXTURES) if STYLES[style] == "flat" and rng.random() < 0.3 else -1
    backdrop = 0 if rng.random() < 0.45 or style in (1, 2) else _index(rng, BACKDROPS)
    count = 1 if rng.random() < 0.85 else int(rng.integers(2, 5))
    size = int(rng.choice(len(SIZES), p=(0.15, 0.4, 0.45))) if count == 1 else 0
    return Scene(concept, colour, -1, texture, count, backdrop, style, size)


def render(scene: Scene, rng: np.random.Generator) -> Pixels:
    """Paint a scene as a small uint8 picture."""
    painters = {
        "object": _paint_object,
        "texture": _paint_texture,
        "letter": _paint_glyph,
        "digit": _paint_glyph,
        "arrow": _paint_arrow,
        "face": _paint_face,
        "flag": _paint_emblem,
        "sign": _paint_emblem,
        "land": _paint_land,
    }
    return finish(_weather(painters[scene.family](scene, rng), rng))


def _weather(picture: Picture, rng: np.random.Generator) -> Picture:
    """Change contrast and brightness a little, now and then blur or add grain."""
    picture = (picture - 128) * rng.uniform(0.75, 1.1) + 128 + rng.normal(0, 10)
    fate = rng.random()
    if fate < 0.15:
        blurred = Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8)).filter(
            ImageFilter.GaussianBlur(rng.uniform(0.5, 2.5))
        )
        return np.asarray(blurred, dtype=np.float64)
    if fate < 0.35:
        return picture + rng.normal(0, rng.uniform(5, 25), picture.shape)
    if fate < 0.5:
        return picture * (0.7 + 0.5 * smooth_noise(rng, 3)[..., None])
    return picture


def _contrasting(rng: np.random.Generator, colour: Colour) -> Colour:
    """Find a background colour that the object does not vanish in."""
    while True:
        choice = vary(rng, COLOURS[COLOUR_NAMES[_index(rng, COLOUR_NAMES)]])
        other = mix(choice, (255, 255, 255), 0.5) if rng.random() < 0.5 else choice
        if np.abs(np.array(other) - np.array(colour)).sum() > 130:
            return other


def _backdrop(name: str, colour: Colour, rng: np.random.Generator) -> Picture:
    """Paint the place behind an object."""
    picture = plain(_contrasting(rng, colour))
    _, y = grid()
    bands = {
        "meadow": ((150, 205, 245), (95, 175, 70)),
        "sea": ((185, 225, 250), (25, 95, 165)),
        "night": ((12, 14, 45), (22, 26, 60)),
        "desert": ((200, 225, 245), (225, 195, 125)),
        "snow": ((175, 195, 220), (245, 248, 252)),
        "room": ((230, 215, 190), (130, 90, 60)),
        "sunset": ((250, 150, 70), (70, 40, 80)),
    }
    if name in bands:
        sky, ground = bands[name]
        picture = plain(vary(rng, sky, 10))
        paint(picture, y > rng.uniform(0, 0.5), vary(rng, ground, 10))
    if name == "night":
        side = picture.shape[0]
        for _ in range(14):
            row, column = rng.integers(0, side - 2, 2)
            picture[row : row + 2, column : column + 2] = 235
    return picture


def _fill(scene: Scene, colour: Colour, rng: np.random.Generator) -> Colour | Picture:
    """Give the paint of an object's body: one colour, or a pattern of it with black or white."""
    if scene.texture < 0:
        return colour
    return _pattern(TEXTURES[scene.texture], colour, _contrasting(rng, colour), rng, rng.uniform(4, 7))


def _pattern(name: str, first: Colour, second: Colour, rng: np.random.Generator, cells: float) -> Picture:
    """Fill a canvas with a flat pattern of two colours."""
    x, y = grid()
    turn = rng.uniform(-0.3, 0.3) + (np.pi / 2 if rng.random() < 0.3 else 0)
    across, down = x * np.cos(turn) - y * np.sin(turn), x * np.sin(turn) + y * np.cos(turn)
    shift = rng.uniform(-0.35, 0.35, 2) if name in ("ringed", "rayed", "spiral") else rng.uniform(0, 5, 2)
    mask = PATTERNS[name]((across + shift[0]) * cells / 2, (down + shift[1]) * cells / 2)
    picture = plain(first)
    paint(picture, mask, second)
    return picture


def _paint_texture(scene: Scene, rng: np.random.Generator) -> Picture:
    """Cover the whole picture with a flat pattern."""
    first, second = (vary(rng, COLOURS[COLOUR_NAMES[i]]) for i in (scene.colour, scene.second))
    return _pattern(TEXTURES[scene.texture], first, second, rng, rng.uniform(3, 8))


def _paint_object(scene: Scene, rng: np.random.Generator) -> Picture:
    """Paint one or several objects on their backdrop."""
    colour = vary(rng, COLOURS[COLOUR_NAMES[scene.colour]])
    picture = _backdrop(BACKDROPS[scene.backdrop], colour, rng)
    if STYLES[scene.style] == "sketch":
        picture = plain(vary(rng, (240, 236, 225), 8))
    parts = OBJECTS[scene.name]
    fill = _fill(scene, colour, rng)
    if scene.count == 1:
        size = rng.uniform(*RADII[SIZES[scene.size]])
        centres = [tuple(rng.uniform(-1, 1, 2) * (1 - size))]
    else:
        size = rng.uniform(0.34, 0.44)
        corners = [(-0.5, -0.5), (0.5, -0.5), (-0.5, 0.5), (0.5, 0.5)]
        chosen = rng.permutation(4)[: scene.count]
        centres = [tuple(np.array(corners[i]) + rng.uniform(-0.1, 0.1, 2)) for i in chosen]
    for centre in centres:
        stretch = (rng.uniform(0.85, 1.15), rng.uniform(0.85, 1.15))
        angle, slant = rng.normal(0, 8), rng.normal(0, 0.08)
        placed = [Part(p.role, move(p.points, centre, size, angle, stretch, slant)) for p in parts]
        _paint_parts(picture, placed, STYLES[scene.style], colour, fill, rng)
    if STYLES[scene.style] == "soft":
        picture = _blurred(picture, 1.6)
    if STYLES[scene.style] == "grainy":
        picture = picture + rng.normal(0, 30, picture.shape)
    return picture


def _blurred(picture: Picture, radius: float) -> Picture:
    """Blur a canvas."""
    image = Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8))
    return np.asarray(image.filter(ImageFilter.GaussianBlur(radius)), dtype=np.float64)


def _paint_parts(
    picture: Picture,
    parts: list[Part],
    style: str,
    colour: Colour,
    fill: Colour | Picture,
    rng: np.random.Generator,
) -> None:
    """Paint the parts of one object in a style."""
    if style in ("outline", "sketch"):
        width = rng.uniform(0.05, 0.1)
        lines = [p.points for p in parts]
        inside = mask_of(lines)
        if style == "outline":
            paint(picture, inside, mix(colour, (255, 255, 255), 0.7))
        paint(picture, line_mask(lines, width, closed=True), colour)
        return
    shades = {"body": fill, "dark": mix(colour, (0, 0, 0), 0.55), "light": mix(colour, (255, 255, 255), 0.65)}
    if sum(colour) < 150:
        shades["dark"] = (95, 85, 80)
    for part in parts:
        paint(picture, mask_of([part.points]), shades[part.role] if style != "silhouette" else colour)


def _paint_arrow(scene: Scene, rng: np.random.Generator) -> Picture:
    """Paint one arrow in two colours."""
    colour, ground = (vary(rng, COLOURS[COLOUR_NAMES[i]]) for i in (scene.colour, scene.second))
    picture = plain(ground)
    size = rng.uniform(*RADII[SIZES[scene.size]])
    centre = tuple(rng.uniform(-1, 1, 2) * (1 - size))
    thin = (1.0, rng.uniform(0.6, 1.0)) if scene.name in ("left", "right") else (rng.uniform(0.6, 1.0), 1.0)
    paint(picture, mask_of([move(ARROWS[scene.name], centre, size, rng.normal(0, 8), thin)]), colour)
    return picture


def _paint_face(scene: Scene, rng: np.random.Generator) -> Picture:
    """Paint a round face as in text messages."""
    colour, ground = (vary(rng, COLOURS[COLOUR_NAMES[i]]) for i in (scene.colour, scene.second))
    if COLOUR_NAMES[scene.colour] == "black":
        colour = (70.0, 70.0, 70.0)
    picture = plain(ground)
    size = rng.uniform(*RADII[SIZES[scene.size]])
    centre = tuple(rng.uniform(-1, 1, 2) * (1 - size))
    stretch, angle = (rng.uniform(0.85, 1.1), rng.uniform(0.85, 1.1)), rng.normal(0, 6)
    face = OBJECTS["circle"][0].points / 0.95
    paint(picture, mask_of([move(face, centre, size, angle, stretch)]), colour)
    ink = (20.0, 20.0, 20.0) if sum(colour) > 260 else (245.0, 245.0, 245.0)
    roles: dict[str, Colour] = {"ink": ink, "tear": (90, 190, 250), "mouth": mix(ink, (200, 30, 60), 0.3)}
    for feature in features(scene.name, rng):
        points = move(feature.points, centre, size, angle, stretch)
        mask = mask_of([points]) if feature.filled else line_mask([points], rng.uniform(0.08, 0.14) * size)
        paint(picture, mask, roles[feature.role])
    return picture


def _paint_glyph(scene: Scene, rng: np.random.Generator) -> Picture:
    """Print one letter or digit."""
    colour, ground = (vary(rng, COLOURS[COLOUR_NAMES[i]]) for i in (scene.colour, scene.second))
    if np.abs(np.array(colour) - np.array(ground)).sum() < 110:
        ground = (250.0, 250.0, 250.0) if sum(colour) < 380 else (15.0, 15.0, 15.0)
    picture = plain(ground)
    paint(picture, glyph_mask(scene.name, rng.uniform(*RADII[SIZES[scene.size]]), rng), colour)
    return picture


def _paint_emblem(scene: Scene, rng: np.random.Generator) -> Picture:
    """Paint a flag or a sign flat, on one colour, as in a book of symbols."""
    patches: tuple[Patch, ...] = FLAGS[scene.name] if scene.family == "flag" else SIGNS[scene.name]
    ground = _contrasting(rng, COLOURS[patches[0].colour])
    picture = plain(ground)
    size = rng.uniform(0.55, 0.95)
    stretch = (1.0, rng.uniform(0.6, 0.75)) if scene.family == "flag" else (1.0, 1.0)
    centre = tuple(rng.uniform(-1, 1, 2) * (1 - size))
    angle = rng.normal(0, 4)
    shades = {name: vary(rng, COLOURS[name], 12) for name in COLOUR_NAMES}
    for patch in patches:
        paint(picture, mask_of([move(patch.points, centre, size, angle, stretch)]), shades[patch.colour])
    return picture


def _paint_land(scene: Scene, rng: np.random.Generator) -> Picture:
    """Paint a place as a children's map or as seen from the ground."""
    return draw_land(scene.name, rng)


__all__ = ["SIDE", "draw_scene", "render"]
