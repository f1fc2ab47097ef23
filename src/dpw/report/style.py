"""How every picture looks: colours that colour-blind readers can tell apart, and one way to write files."""

import io
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpw.errors import InputError
from dpw.storage import files
from dpw.storage.run_folder import RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette; its yellow is left out because it vanishes on white.
BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#E69F00", "#009E73", "#CC79A7"
VERMILION, SKY, GREY = "#D55E00", "#56B4E9", "#7F7F7F"
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, VERMILION, SKY, GREY)
MARKERS = "osD^vP*X"
DASHES = ("-", "--", ":", "-.")
HEAT = "cividis"
MATH = r"\mathdefault"  # what matplotlib writes powers of ten with
MADE_BY = "drawn by dpw"  # in the metadata of single pictures, so that no photo is ever replaced by one

# Methods people compare most keep their colour in every picture; others take what is left.
METHOD_COLOURS = {
    "dpw": BLUE,
    "dpw-reduced": SKY,
    "diki": ORANGE,
    "finetune": VERMILION,
    "zero-shot": GREY,
    "moe-adapters": GREEN,
    "zscl": PURPLE,
}

# Colours that a page replaces by its own, so that one drawing serves light and dark.
INK, FAINT, GROUND = "#1a1a1b", "#c8c8c9", "#fefefe"

# Any, because the type of these keys differs between releases of matplotlib.
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.labelsize": 9.0,
    "legend.fontsize": 8.0,
    "legend.frameon": False,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "svg.fonttype": "none",
    "figure.constrained_layout.use": True,
    "figure.facecolor": "none",
    "savefig.facecolor": "white",
}


@dataclass(frozen=True)
class Look:
    """How one line is drawn; colour alone never has to carry the difference."""

    colour: str
    marker: str
    dash: str


@dataclass(frozen=True)
class Picture:
    """A drawn figure: its SVG, its name on disk, what to say below it, and whether its numbers are a CSV."""

    name: str
    title: str
    caption: str
    svg: str
    width: float
    csv: bool = False


def need_matplotlib() -> None:
    """Say how to get matplotlib if it is not there."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InputError(
            "pictures need matplotlib, which is not installed: pip install 'dpw[report]'"
        ) from error


@contextmanager
def style() -> Iterator[None]:
    """Draw in the house style inside this block, and leave the user's own settings alone."""
    need_matplotlib()
    import matplotlib as mpl

    with mpl.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # it is drawn as a box
        yield


def new_figure(
    width: float, height: float, rows: int = 1, columns: int = 1, **options: Any
) -> "tuple[Figure, list[Axes]]":
    """A figure of a size in inches with a grid of axes, row by row; no global state is touched."""
    need_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, list(axes.flat)


def looks(names: Sequence[str], fixed: dict[str, str] | None = None) -> dict[str, Look]:
    """A look for every name, the same whenever the same names are given."""
    fixed = METHOD_COLOURS if fixed is None else fixed
    taken = {fixed[name] for name in names if name in fixed}
    free = [colour for colour in PALETTE if colour not in taken] or list(PALETTE)
    given: dict[str, Look] = {}
    others, used = 0, Counter[str]()
    for name in names:
        colour = fixed.get(name)
        if colour is None:
            colour, others = free[others % len(free)], others + 1
        # A colour keeps its marker; whoever has to share it gets another marker and dash.
        turn, used[colour] = used[colour], used[colour] + 1
        marker = MARKERS[(PALETTE.index(colour) + turn) % len(MARKERS)]
        given[name] = Look(colour, marker, DASHES[turn % len(DASHES)])
    return given


def hide_unused(axes: "Sequence[Axes]", used: int) -> None:
    """Switch off the axes of a grid that hold nothing."""
    for axis in axes[used:]:
        axis.set_axis_off()


def heat_map(
    axis: "Axes",
    values: Sequence[Sequence[float | None]],
    low: float,
    high: float,
    decimals: int = 0,
) -> Any:
    """Colour a table and write each value into its cell, dark on light and light on dark."""
    import matplotlib as mpl
    import numpy as np

    table = np.array([[np.nan if value is None else value for value in row] for row in values], dtype=float)
    colours = mpl.colormaps[HEAT].with_extremes(bad="none")
    image = axis.imshow(np.ma.masked_invalid(table), cmap=colours, vmin=low, vmax=high, aspect="auto")
    for row, column in np.ndindex(table.shape):
        value = table[row, column]
        if np.isnan(value):
            axis.text(column, row, "–", ha="center", va="center", fontsize=7.5)
            continue
        light = (value - low) / max(high - low, 1e-12) > 0.55
        shade = "#101010" if light else "#f4f4f4"
        axis.text(column, row, f"{value:.{decimals}f}", ha="center", va="center", fontsize=7.5, color=shade)
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)
    return image


def label_ticks(axis: "Axes", columns: Sequence[str] | None, rows: Sequence[str] | None) -> None:
    """Name columns (slanted, so that long names never touch) and rows."""
    if columns is not None:
        axis.set_xticks(range(len(columns)), list(columns), rotation=40, ha="right", rotation_mode="anchor")
    if rows is not None:
        axis.set_yticks(range(len(rows)), list(rows))


def claim_pictures(folder: Path, run: Path) -> None:
    """Make a folder for the pictures of a run, or refuse one of others; the run's own is known."""
    files.claim_folder(folder, known=folder == RunFolder(run).figures)


def save_picture(
    figure: "Figure", folder: Path, name: str, title: str, caption: str, dpi: int = 150, data: Any = None
) -> Picture:
    """Write a figure as PNG and SVG (and its data as JSON) and give it as a picture for a page."""
    drawn = io.StringIO()
    pixels = io.BytesIO()
    with style():
        import matplotlib as mpl

        _make_readable(figure)
        figure.draw_without_rendering()  # one round of the layout more: the first may be too narrow
        with mpl.rc_context({"svg.hashsalt": name}):
            figure.savefig(drawn, format="svg", metadata={"Date": None}, facecolor="white")
        figure.set_layout_engine("none")  # what was laid out once stays where it is
        figure.savefig(pixels, format="png", dpi=dpi, metadata={"Software": None})
    if data is not None:
        files.write_bytes(folder / f"{name}.json", json.dumps(data).encode() + b"\n")
    files.write_bytes(folder / f"{name}.svg", drawn.getvalue().encode())
    files.write_bytes(folder / f"{name}.png", pixels.getvalue())
    return Picture(name, title, caption, drawn.getvalue(), figure.get_figwidth())


def _make_readable(figure: "Figure") -> None:
    """Spell out what no letter can be drawn for, such as control characters in the name of a class."""
    from matplotlib.text import Text

    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        names = [label.get_text() for label in axis.get_majorticklabels()]
        if any(name != _drawable(name) for name in names):
            axis.set_ticks(axis.get_majorticklocs(), [_drawable(name) for name in names])
    for text in figure.findobj(Text):
        if isinstance(text, Text):
            text.set_text(_drawable(text.get_text()))
            text.set_parse_math(MATH in text.get_text())  # any other dollar belongs to a name


def _drawable(text: str) -> str:
    """Text in which every letter is visible."""
    return "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in text)


def save_figure(figure: "Figure", path: Path, dpi: int = 150) -> None:
    """Write one figure in the format its name asks for: `.png` or `.svg`."""
    kind = path.suffix.lower().lstrip(".")
    if kind not in ("png", "svg"):
        raise InputError(f"{path} must end in .png or .svg")
    files.refuse_foreign_file(path, MADE_BY.encode())
    drawn, field = io.BytesIO(), "Software" if kind == "png" else "Creator"
    with style():
        _make_readable(figure)
        figure.savefig(drawn, format=kind, dpi=dpi, metadata={field: MADE_BY})
    files.write_bytes(path, drawn.getvalue())


def inline_svg(picture: Picture) -> str:
    """The SVG as a part of a page: own ids, no header, ink and background of the page around it."""
    text = picture.svg[picture.svg.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{picture.name}-', text)
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{picture.name}-", text)
    # The first patch is the white background, which only the file on disk needs.
    text = re.sub(r"fill: #ffffff(?=[^>]*/>)", "fill: none", text, count=1)
    text = text.replace(INK, "currentColor").replace(FAINT, "var(--line)").replace(GROUND, "var(--paper)")
    return text.strip()
