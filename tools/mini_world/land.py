"""Places drawn as on a children's map (flat colours and little pictures) or seen from the ground."""

import numpy as np

from dpw.benchmarks.mini.canvas import (
    Colour,
    Picture,
    arc,
    box,
    disc,
    grid,
    line_mask,
    mask_of,
    mix,
    move,
    paint,
    plain,
    polygon,
    smooth_noise,
    vary,
)
from dpw.benchmarks.mini.shapes import OBJECTS

GRASS, LEAF, WATER, SAND, SNOW, ASPHALT = (
    (140, 195, 90), (40, 115, 45), (60, 130, 215), (232, 208, 140), (245, 248, 252), (95, 95, 100),
)  # fmt: skip


def draw_land(name: str, rng: np.random.Generator) -> Picture:
    """Paint a place, half of the time from above and half from the ground."""
    painter = _MAPS[name] if rng.random() < 0.6 else _VIEWS[name]
    return painter(rng)


def _ground(rng: np.random.Generator, colour: Colour) -> Picture:
    """Start with ground of nearly one colour."""
    return plain(vary(rng, colour, 14))


def _stamp(
    picture: Picture, name: str, rng: np.random.Generator, colour: Colour, count: int, size: float
) -> None:
    """Scatter small pictures of an object, the near ones (lower) last."""
    centres = sorted((tuple(rng.uniform(-0.95, 0.95, 2)) for _ in range(count)), key=lambda c: c[1])
    for centre in centres:
        shade = vary(rng, colour, 14)
        shades = {
            "body": shade,
            "dark": mix(shade, (60, 30, 10), 0.6),
            "light": mix(shade, (255, 255, 255), 0.6),
        }
        scale = size * rng.uniform(0.8, 1.25)
        for part in OBJECTS[name]:
            paint(picture, mask_of([move(part.points, centre, scale)]), shades[part.role])


def _blob(rng: np.random.Generator, centre: tuple[float, float], radius: float) -> np.ndarray:
    """Give a round outline with bays."""
    outline = disc(0, 0, 1, corners=24)
    phase = rng.uniform(0, 6.3, 3)
    angle = np.arctan2(outline[:, 1], outline[:, 0])
    wobble = (
        1
        + 0.14 * np.sin(2 * angle + phase[0])
        + 0.1 * np.sin(3 * angle + phase[1])
        + 0.06 * np.sin(5 * angle + phase[2])
    )
    return move(outline * wobble[:, None], centre, radius, stretch=(1, rng.uniform(0.7, 1.1)))


def _winding(rng: np.random.Generator, bend: float) -> np.ndarray:
    """Give a line that winds across the picture in some direction."""
    t = np.linspace(-1.6, 1.6, 24)
    line = np.stack(
        [t, bend * np.sin(rng.uniform(1.5, 3) * t + rng.uniform(0, 6.3)) + rng.uniform(-0.3, 0.3)], axis=1
    )
    return move(line, angle=rng.uniform(0, 180))


def _map_forest(rng: np.random.Generator) -> Picture:
    """Many little trees."""
    picture = _ground(rng, mix(GRASS, LEAF, rng.uniform(0.2, 0.8)))
    _stamp(
        picture,
        str(rng.choice(["tree", "pine"])),
        rng,
        LEAF,
        int(rng.integers(18, 34)),
        rng.uniform(0.16, 0.26),
    )
    return picture


def _map_river(rng: np.random.Generator) -> Picture:
    """A blue band that winds through grass."""
    picture = _ground(rng, GRASS)
    paint(picture, line_mask([_winding(rng, 0.35)], rng.uniform(0.2, 0.42)), vary(rng, WATER, 14))
    if rng.random() < 0.4:
        _stamp(picture, "tree", rng, LEAF, 4, 0.15)
    return picture


def _map_lake(rng: np.random.Generator) -> Picture:
    """Water with land all around."""
    picture = _ground(rng, GRASS)
    centre = tuple(rng.uniform(-0.25, 0.25, 2))
    paint(picture, mask_of([_blob(rng, centre, rng.uniform(0.45, 0.7))]), vary(rng, WATER, 14))
    if rng.random() < 0.4:
        _stamp(picture, "tree", rng, LEAF, 3, 0.15)
    return picture


def _map_island(rng: np.random.Generator) -> Picture:
    """Land with water all around."""
    picture = _ground(rng, WATER)
    centre, radius = tuple(rng.uniform(-0.25, 0.25, 2)), rng.uniform(0.45, 0.7)
    outline = _blob(rng, centre, radius)
    paint(picture, mask_of([outline]), vary(rng, SAND, 14))
    paint(picture, mask_of([(outline - np.array(centre)) * 0.75 + np.array(centre)]), vary(rng, GRASS, 14))
    return picture


def _map_highway(rng: np.random.Generator) -> Picture:
    """A grey band with a dashed line, straight or bent, now and then crossed."""
    picture = _ground(rng, mix(GRASS, SAND, rng.uniform(0, 1)))
    for _ in range(int(rng.integers(1, 3))):
        line, width = _winding(rng, rng.uniform(0, 0.2)), rng.uniform(0.25, 0.42)
        paint(picture, line_mask([line], width), vary(rng, ASPHALT, 10))
        paint(picture, line_mask([line[i : i + 2] for i in range(0, 23, 2)], 0.05), (250, 250, 250))
    return picture


def _map_farmland(rng: np.random.Generator) -> Picture:
    """A patchwork of fields."""
    picture = _ground(rng, GRASS)
    x, y = grid()
    turn = rng.uniform(0, 3.14)
    across, down = x * np.cos(turn) - y * np.sin(turn), x * np.sin(turn) + y * np.cos(turn)
    columns, rows = np.floor(across * rng.uniform(1.2, 2.2)), np.floor(down * rng.uniform(1.2, 2.2))
    crops = [GRASS, (220, 200, 90), (165, 130, 70), (90, 150, 60), (200, 180, 120)]
    for column in np.unique(columns):
        for row in np.unique(rows):
            field = (columns == column) & (rows == row)
            paint(picture, field, vary(rng, crops[int(rng.integers(len(crops)))], 10))
            if rng.random() < 0.4:
                furrows = field & (np.floor(across * rng.uniform(8, 12)) % 2 == 0)
                picture[furrows] *= 0.85
    return picture


def _map_town(rng: np.random.Generator) -> Picture:
    """Rows of little houses, or roofs in a grid of streets."""
    picture = _ground(rng, (190, 190, 180))
    if rng.random() < 0.5:
        _stamp(picture, "house", rng, (225, 170, 120), int(rng.integers(10, 18)), rng.uniform(0.16, 0.26))
        return picture
    step = rng.uniform(0.36, 0.5)
    for column in np.arange(-1, 1, step):
        for row in np.arange(-1, 1, step):
            roof = box(column + 0.06, row + 0.06, column + step - 0.08, row + step - 0.08)
            paint(
                picture,
                mask_of([roof]),
                vary(rng, (190, 85, 60) if rng.random() < 0.7 else (150, 150, 155), 14),
            )
    return picture


def _map_beach(rng: np.random.Generator) -> Picture:
    """Sand on one side, water on the other."""
    picture = _ground(rng, SAND)
    line = _winding(rng, 0.12)
    normal = np.array([line[0, 1] - line[-1, 1], line[-1, 0] - line[0, 0]])
    sea = np.concatenate([line, line[::-1] + normal])
    paint(picture, mask_of([sea]), vary(rng, WATER, 14))
    paint(picture, line_mask([line], rng.uniform(0.08, 0.16)), (245, 248, 250))
    return picture


def _map_desert(rng: np.random.Generator) -> Picture:
    """Sand with bows of dunes."""
    picture = _ground(rng, SAND)
    for _ in range(int(rng.integers(4, 10))):
        x, y = rng.uniform(-1, 1, 2)
        bow = arc(x, y, rng.uniform(0.2, 0.5), rng.uniform(0.1, 0.2), 190, 350)
        paint(picture, line_mask([bow], 0.06), mix(SAND, (150, 110, 50), 0.5))
    return picture


def _map_snow(rng: np.random.Generator) -> Picture:
    """White ground with grey rocks and blue shadows."""
    picture = _ground(rng, SNOW)
    for _ in range(int(rng.integers(2, 7))):
        x, y = rng.uniform(-1, 1, 2)
        size = rng.uniform(0.12, 0.35)
        paint(picture, mask_of([move(polygon(-1, 0.6, 0, -1, 1, 0.6), (x, y), size)]), (140, 150, 165))
        paint(
            picture, mask_of([move(polygon(-0.4, -0.36, 0, -1, 0.4, -0.36), (x, y), size)]), (252, 252, 255)
        )
    return picture


def _view(rng: np.random.Generator, ground: Colour, sky: Colour = (165, 210, 245)) -> tuple[Picture, float]:
    """Paint sky and ground; give the height of the horizon."""
    picture, horizon = plain(vary(rng, sky, 12)), rng.uniform(-0.4, 0.1)
    paint(picture, mask_of([box(-1, horizon, 1, 1)]), vary(rng, ground, 12))
    return picture, horizon


def _row(
    picture: Picture, name: str, rng: np.random.Generator, colour: Colour, horizon: float, count: int
) -> None:
    """Put a row of objects on the horizon."""
    for x in np.linspace(-0.95, 0.95, count) + rng.uniform(-0.08, 0.08, count):
        size = rng.uniform(0.2, 0.38)
        shade = vary(rng, colour, 14)
        shades = {
            "body": shade,
            "dark": mix(shade, (60, 30, 10), 0.6),
            "light": mix(shade, (255, 255, 255), 0.6),
        }
        for part in OBJECTS[name]:
            paint(picture, mask_of([move(part.points, (x, horizon), size)]), shades[part.role])


def _view_forest(rng: np.random.Generator) -> Picture:
    """Rows of trees one before the other."""
    picture, horizon = _view(rng, GRASS)
    for depth in range(3):
        _row(
            picture,
            str(rng.choice(["tree", "pine"])),
            rng,
            LEAF,
            horizon + depth * 0.35,
            int(rng.integers(5, 8)),
        )
    return picture


def _view_river(rng: np.random.Generator) -> Picture:
    """Water that comes from the horizon and widens."""
    picture, horizon = _view(rng, GRASS)
    shift, near = rng.uniform(-0.5, 0.5), rng.uniform(0.35, 0.6)
    stream = polygon(
        shift - 0.05, horizon, shift + 0.08, horizon, near * 0.5, 0.4, near, 1, -near, 1, -0.1, 0.4
    )
    paint(picture, mask_of([stream]), vary(rng, WATER, 12))
    return picture


def _view_lake(rng: np.random.Generator) -> Picture:
    """A flat ellipse of water."""
    picture, horizon = _view(rng, GRASS)
    water = disc(rng.uniform(-0.2, 0.2), horizon + 0.5, rng.uniform(0.6, 0.85), rng.uniform(0.25, 0.38))
    paint(picture, mask_of([water]), vary(rng, WATER, 12))
    return picture


def _view_island(rng: np.random.Generator) -> Picture:
    """A hump of sand with a tree in the sea."""
    picture, horizon = _view(rng, WATER)
    y = horizon + 0.45
    paint(picture, mask_of([disc(0, y, rng.uniform(0.45, 0.7), 0.2)]), vary(rng, SAND, 12))
    for part in OBJECTS["tree"]:
        paint(
            picture,
            mask_of([move(part.points, (0, y - 0.35), 0.35)]),
            LEAF if part.role == "body" else (110, 70, 30),
        )
    return picture


def _view_highway(rng: np.random.Generator) -> Picture:
    """A road that runs to the horizon."""
    picture, horizon = _view(rng, mix(GRASS, SAND, rng.uniform(0, 1)))
    x = rng.uniform(-0.4, 0.4)
    paint(
        picture,
        mask_of([polygon(x - 0.04, horizon, x + 0.04, horizon, 0.75, 1, -0.75, 1)]),
        vary(rng, ASPHALT, 10),
    )
    down = 1 - horizon
    dashes = [
        polygon(x * (1 - t), horizon + down * t, x * (0.9 - t), horizon + down * (t + 0.1))
        for t in (0.1, 0.35, 0.6, 0.85)
    ]
    paint(picture, line_mask(dashes, 0.06), (250, 250, 250))
    return picture


def _view_farmland(rng: np.random.Generator) -> Picture:
    """Furrows that run to the horizon."""
    picture, horizon = _view(rng, (150, 170, 70))
    x = rng.uniform(-0.5, 0.5)
    for near in np.arange(-2, 2, 0.5):
        furrow = polygon(x + near * 0.1, horizon, x + near * 0.1 + 0.02, horizon, near + 0.25, 1, near, 1)
        paint(picture, mask_of([furrow]), vary(rng, (205, 185, 80), 10))
    return picture


def _view_town(rng: np.random.Generator) -> Picture:
    """Houses side by side."""
    picture, horizon = _view(rng, (170, 170, 165))
    _row(picture, "house", rng, (225, 180, 140), horizon, int(rng.integers(4, 7)))
    _row(picture, "house", rng, (225, 150, 120), horizon + 0.45, int(rng.integers(3, 5)))
    return picture


def _view_beach(rng: np.random.Generator) -> Picture:
    """Sky, sea, sand."""
    picture, _ = _view(rng, WATER)
    shore = rng.uniform(0.2, 0.5)
    paint(
        picture,
        mask_of([polygon(-1, shore, 1, shore + rng.uniform(-0.2, 0.2), 1, 1, -1, 1)]),
        vary(rng, SAND, 12),
    )
    if rng.random() < 0.5:
        for part in OBJECTS["umbrella"]:
            paint(
                picture,
                mask_of([move(part.points, (0.3, 0.5), 0.35)]),
                (215, 60, 50) if part.role == "body" else (90, 70, 50),
            )
    return picture


def _view_desert(rng: np.random.Generator) -> Picture:
    """Dunes under a pale sky."""
    picture, horizon = _view(rng, SAND)
    for depth in range(3):
        dune = disc(
            rng.uniform(-0.8, 0.8), horizon + 0.3 + depth * 0.4, rng.uniform(0.6, 1.1), rng.uniform(0.2, 0.35)
        )
        paint(picture, mask_of([dune]), vary(rng, mix(SAND, (200, 150, 80), depth * 0.25), 8))
    return picture


def _view_snow(rng: np.random.Generator) -> Picture:
    """White mountains over white ground."""
    picture, horizon = _view(rng, SNOW)
    for _ in range(int(rng.integers(1, 4))):
        x, size = rng.uniform(-0.7, 0.7), rng.uniform(0.4, 0.75)
        paint(picture, mask_of([move(polygon(-1, 0.5, 0, -1, 1, 0.5), (x, horizon), size)]), (150, 160, 175))
        paint(
            picture,
            mask_of([move(polygon(-0.5, -0.25, 0, -1, 0.5, -0.25), (x, horizon), size)]),
            (252, 252, 255),
        )
    picture *= (0.93 + 0.07 * _clouds(rng))[..., None]
    return picture


def _clouds(rng: np.random.Generator) -> np.ndarray:
    """Give fractal noise in [0, 1]."""
    total = sum(smooth_noise(rng, 3 * 2**octave) / 2**octave for octave in range(4))
    return (total - total.min()) / (total.max() - total.min())


_MAPS = {
    "forest": _map_forest, "river": _map_river, "lake": _map_lake, "highway": _map_highway,
    "farmland": _map_farmland, "town": _map_town, "beach": _map_beach, "desert": _map_desert,
    "island": _map_island, "snow": _map_snow,
}  # fmt: skip
_VIEWS = {
    "forest": _view_forest, "river": _view_river, "lake": _view_lake, "highway": _view_highway,
    "farmland": _view_farmland, "town": _view_town, "beach": _view_beach, "desert": _view_desert,
    "island": _view_island, "snow": _view_snow,
}  # fmt: skip
