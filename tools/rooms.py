"""Draw docs/images/rooms.svg: the rooms of the package and which of them import which.

    python tools/rooms.py

Rooms stand in layers, each importing only from layers below; a line that would point upwards is an error.
"""

import ast
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "dpw"
PICTURE = ROOT / "docs" / "images" / "rooms.svg"

LAYERS: tuple[tuple[str, ...], ...] = (
    ("cli",),
    ("serving", "cluster"),
    ("analysis",),
    ("report", "learner"),
    ("runs",),
    ("engine", "benchmarks"),
    ("storage",),
    ("methods",),
    ("data", "functional"),
    ("clip",),
    ("errors",),
)
SAYS = {
    "cli": "thin commands",
    "serving": "HTTP, browser, export, hub",
    "cluster": "many machines by Ray",
    "analysis": "the paper's analyses",
    "report": "tables, figures, pages",
    "learner": "ContinualCLIP",
    "runs": "a benchmark run, comparing",
    "engine": "training, accuracy matrix",
    "benchmarks": "sequences of tasks",
    "storage": "files whole or absent",
    "methods": "one file a method",
    "data": "image files to pixels",
    "functional": "the paper's equations",
    "clip": "towers with places to act",
    "errors": "one sentence each",
}
WIDTH, HEIGHT, GAP, BOX = 760, 62, 26, 230


def doors(package: Path = PACKAGE) -> set[tuple[str, str]]:
    """Pairs of rooms of which the first imports the second, wherever the import stands."""
    found = set()
    for path in package.rglob("*.py"):
        room = path.relative_to(package).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            names = (
                [module] if module else [a.name for a in node.names] if isinstance(node, ast.Import) else []
            )
            for name in names:
                parts = str(name).split(".")
                target = parts[1] if parts[0] == "dpw" and len(parts) > 1 else None
                if parts == ["dpw"] and isinstance(node, ast.ImportFrom):
                    found |= {(room, alias.name) for alias in node.names if alias.name in SAYS}
                if target in SAYS and target != room:
                    found.add((room, str(target)))
    return {(room, target) for room, target in found if room in SAYS and room != target}


def layer_of(room: str) -> int:
    """The layer a room stands in, counted from the top."""
    return next(number for number, layer in enumerate(LAYERS) if room in layer)


def upward(found: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """Doors that lead to the same layer or to one above."""
    return sorted(pair for pair in found if layer_of(pair[0]) >= layer_of(pair[1]))


def picture(found: set[tuple[str, str]]) -> str:
    """The map as SVG; neighbouring layers by straight lines, others by faint curves."""
    places = {}
    for number, layer in enumerate(LAYERS):
        left = (WIDTH - len(layer) * BOX - (len(layer) - 1) * 60) / 2
        for column, room in enumerate(layer):
            places[room] = (left + column * (BOX + 60), GAP + number * (HEIGHT + GAP))
    total = GAP + len(LAYERS) * (HEIGHT + GAP)
    lines = [_line(places, pair) for pair in sorted(found)]
    boxes = [_box(places[room], room) for room in SAYS]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {total}" font-family="sans-serif">'
    title = "<title>Rooms of dpw: every room imports only from rooms below it</title>"
    return "\n".join([head, title, *lines, *boxes, "</svg>"]) + "\n"


def _line(places: dict[str, tuple[float, float]], pair: tuple[str, str]) -> str:
    """One door."""
    (x1, y1), (x2, y2) = (places[room] for room in pair)
    near = layer_of(pair[1]) - layer_of(pair[0]) == 1
    shift = 0 if near else (BOX / 2 + 14 * (layer_of(pair[1]) - layer_of(pair[0]))) * (1 if x2 >= x1 else -1)
    top, bottom = (x1 + BOX / 2, y1 + HEIGHT), (x2 + BOX / 2, y2)
    turns = f"{top[0] + shift} {top[1] + 30} {bottom[0] + shift} {bottom[1] - 30}"
    curve = f"M{top[0]} {top[1]} C{turns} {bottom[0]} {bottom[1]}"
    look = f'fill="none" stroke="#5b7" stroke-opacity="{1 if near else 0.35}" stroke-width="1.5"'
    return f'<path d="{curve}" {look}/>'


def _box(place: tuple[float, float], room: str) -> str:
    """One room with what it is for."""
    x, y = place
    middle = x + BOX / 2
    words = f'x="{middle}" text-anchor="middle"'
    return (
        f'<g><rect x="{x}" y="{y}" width="{BOX}" height="{HEIGHT}" rx="8" fill="#f4f7f5" stroke="#2a5"/>'
        f'<text {words} y="{y + 26}" font-weight="bold" font-size="16">{room}</text>'
        f'<text {words} y="{y + 47}" font-size="13">{escape(SAYS[room])}</text></g>'
    )


def main() -> int:
    """Write the picture, unless a door leads upwards."""
    found = doors()
    if wrong := upward(found):
        print(f"these imports lead upwards: {wrong}")
        return 1
    PICTURE.write_text(picture(found), encoding="utf-8")
    print(f"{PICTURE}: {len(found)} doors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
