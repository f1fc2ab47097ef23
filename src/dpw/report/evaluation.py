"""What `dpw evaluate` found on a folder: as text, as CSV, and as one self-contained page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from dpw.errors import InputError
from dpw.report.page import WRITTEN_BY, Chapter, Part, page
from dpw.report.style import (
    BLUE,
    FAINT,
    GREY,
    HEAT,
    ORANGE,
    Picture,
    heat_map,
    label_ticks,
    need_matplotlib,
    new_figure,
    save_picture,
    style,
)
from dpw.report.tables import Cell, Table, as_csv, exact, shown
from dpw.runs.provenance import PROGRAM
from dpw.storage.csv_file import csv_line
from dpw.storage.files import claim_folder, refuse_foreign_file, write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dpw.engine.scoring import FolderScore, Rejection, Score

WRITTEN_CELLS = 30  # classes up to which every cell of the confusion matrix shows its number
NAMED_CLASSES = 80  # classes up to which its rows and columns have names
HEADER = (
    "image",
    "class",
    "answer",
    "right",
    "in_top_5",
    "probability",
    "task",
    "confidence",
    "typicality",
    "error",
)


def write_evaluation(score: FolderScore, output: str | Path) -> Path:
    """Write a page about one folder, which needs no other file and no network.

    Args:
        score: what `ContinualCLIP.evaluate_folder` found; nothing is measured again.
        output: the page, ending in `.html`. Every picture (PNG, SVG) and table (CSV) is also written into the
            folder `<output without .html>_files` beside it.

    Returns:
        The path of the page.

    Raises:
        InputError: `output` is no HTML file, or matplotlib is not installed.
        StorageError: the page cannot be written.
    """
    need_matplotlib()
    output = Path(output)
    if output.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{output} does not end in .html: give the page a name such as evaluation.html")
    refuse_foreign_file(output, WRITTEN_BY)
    files = output.with_name(f"{output.stem}_files")
    claim_folder(files, known=output.is_file())
    for table in _all_tables(score):
        write_bytes(files / f"{table.name}.csv", as_csv(table).encode())
    parts = [
        Part("Summary", "summary", (summary(score), *_tables_of_tasks(score))),
        Part("Classes", "classes", (class_table(score),)),
        Part("Confusion", "confusion", (_confusion_picture(score, files), mistakes(score))),
        Part("Calibration", "calibration", (_calibration_picture(score, files), bins(score))),
    ]
    if score.rejection is not None:
        drawn = _strangers_picture(score.rejection, files)
        parts.append(Part("Strangers", "strangers", (drawn, rejection_table(score.rejection))))
    introduction = f"{score.model}, asked for all images of {score.folder}. Written by {PROGRAM}."
    chapter = Chapter(Path(score.folder).name or score.folder, "top", tuple(parts))
    write_bytes(
        output, page(f"How well {score.folder} is known", introduction, [chapter], files.name).encode()
    )
    return output


def images_csv(score: FolderScore) -> str:
    """Every image with its class and its answer, one line each."""
    names = (
        "image",
        "truth",
        "label",
        "right",
        "in_top",
        "probability",
        "task",
        "confidence",
        "typicality",
        "error",
    )
    rows = ([asdict(image)[name] for name in names] for image in score.images)
    return csv_line(HEADER) + "".join(
        csv_line([int(cell) if isinstance(cell, bool) else cell for cell in row]) for row in rows
    )


def as_text(score: FolderScore, width: int | None = None) -> str:
    """Everything a terminal wants to show, of a width if there is one."""
    tables = [summary(score), *_tables_of_tasks(score), class_table(score)]
    if score.confusion.mistakes():
        tables.append(mistakes(score, 10))
    if score.rejection is not None:
        tables.append(rejection_table(score.rejection))
    return "\n\n".join(text_table(table, width) for table in tables)


def text_table(table: Table, width: int | None = None) -> str:
    """A table in columns, numbers to the right; a single row that is too wide stands upright."""
    cells = [list(table.header), *([shown(cell) for cell in row] for row in table.rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(table.header))]
    right = [any(exact(row[column]) is not None for row in table.rows) for column in range(len(table.header))]
    lines = [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cells
    ]
    if width is not None and len(table.rows) == 1 and max(map(len, lines)) > width:
        longest = max(map(len, table.header))
        lines = [f"{name.ljust(longest)}  {cell}" for name, cell in zip(*cells, strict=True)]
    return "\n".join(lines)


# ------------------------------------------------------------------------------------------------- tables


def _all_tables(score: FolderScore) -> list[Table]:
    """All tables of a page."""
    several = [confusion(score), mistakes(score), bins(score)]
    found = [summary(score), *_tables_of_tasks(score), class_table(score), *several]
    return found if score.rejection is None else [*found, rejection_table(score.rejection)]


def summary(score: FolderScore) -> Table:
    """The whole folder in one line."""
    overall = score.overall
    row = (
        score.folder,
        overall.images,
        len(score.errors),
        score.candidates,
        overall.accuracy,
        overall.top5,
        overall.task_found,
        100 * score.calibration.error,
    )
    header = ("Folder", "Images", "Not read", "Candidates", "Right, %", "Top 5, %", "Task found, %", "ECE, %")
    note = (
        "Candidates: classes to choose from. Top 5: right among the five likeliest. ECE: expected "
        "calibration error, how far probabilities are from the share of right answers."
    )
    return Table("summary", "Summary", header, (row,), note)


def _tables_of_tasks(score: FolderScore) -> list[Table]:
    """Accuracy by learned task, where any is."""
    if not score.tasks:
        return []
    return [_scores("tasks", "Tasks", "Task", score.tasks)]


def class_table(score: FolderScore) -> Table:
    """Accuracy by class, and what each is most often taken for."""
    plain = _scores("classes", "Classes", "Class", score.classes)
    taken: dict[str, str] = {}
    for name, answer, count in score.confusion.mistakes():
        taken.setdefault(name, f"{answer} ({count})")
    rows = tuple((*row, taken.get(str(row[0]), "")) for row in plain.rows)
    return Table(plain.name, plain.title, (*plain.header, "Most often taken for"), rows)


def _scores(name: str, title: str, first: str, scores: Sequence[Score]) -> Table:
    """Scores in lines."""
    rows = tuple((one.name, one.images, one.accuracy, one.top5, one.task_found) for one in scores)
    return Table(name, title, (first, "Images", "Right, %", "Top 5, %", "Task found, %"), rows)


def confusion(score: FolderScore) -> Table:
    """The confusion matrix in numbers of images."""
    matrix = score.confusion
    rows: list[tuple[Cell, ...]] = [
        (name, *row) for name, row in zip(matrix.classes, matrix.counts, strict=True)
    ]
    return Table("confusion", "Confusion matrix", ("Images of", *matrix.answers), tuple(rows))


def mistakes(score: FolderScore, most: int = 50) -> Table:
    """The most frequent mistakes."""
    rows = tuple(score.confusion.mistakes()[:most])
    return Table("mistakes", "Most frequent mistakes", ("Class", "Taken for", "Times"), rows)


def bins(score: FolderScore) -> Table:
    """The bins of the calibration error."""
    rows = tuple(
        (f"{one.low:.2f} to {one.high:.2f}", one.images, _hundred(one.probability), _hundred(one.accuracy))
        for one in score.calibration.bins
    )
    return Table("calibration", "Calibration", ("Probability", "Images", "Mean, %", "Right, %"), rows)


def _hundred(share: float | None) -> float | None:
    """A share in per cent."""
    return None if share is None else 100 * share


def rejection_table(rejection: Rejection) -> Table:
    """How well strangers are told apart."""
    level = f"{100 * rejection.level:g} %"
    row: tuple[Cell, ...] = (
        rejection.folder,
        rejection.images,
        rejection.auroc,
        rejection.rejected,
        rejection.false_alarms,
        rejection.rejected_alike,
    )
    header = (
        "Strangers",
        "Images",
        "AUROC, %",
        f"Rejected at {level}",
        "Own rejected",
        f"Rejected where {level} of own are",
    )
    return Table(
        "strangers", "Strangers", header, (row,), "Shares in per cent of images, by their typicality."
    )


# ----------------------------------------------------------------------------------------------- pictures


def _confusion_picture(score: FolderScore, files: Path) -> Picture:
    """The confusion matrix as colours."""
    caption = "Each row is a class of the folder, each column an answer; per cent of the row's images."
    return save_picture(draw_confusion(score), files, "confusion", "confusion matrix", caption)


def draw_confusion(score: FolderScore) -> Figure:
    """Rows: classes; columns: answers; numbers and names while they can be read."""
    matrix = score.confusion
    shares = [[100 * count / max(sum(row), 1) for count in row] for row in matrix.counts]
    rows, columns = len(matrix.classes), len(matrix.answers)
    with style():
        figure, (axis,) = new_figure(min(2.4 + 0.36 * columns, 12), min(1.6 + 0.26 * rows, 10))
        if max(rows, columns) <= WRITTEN_CELLS:
            image = heat_map(axis, shares, 0, 100)
        else:
            image = axis.imshow(shares, cmap=HEAT, vmin=0, vmax=100, aspect="auto", interpolation="nearest")
        if max(rows, columns) <= NAMED_CLASSES:
            label_ticks(axis, matrix.answers, matrix.classes)
        axis.set_xlabel("answer")
        axis.set_ylabel("class")
        figure.colorbar(image, ax=axis, label="% of images", fraction=0.05, pad=0.02)
    return figure


def _calibration_picture(score: FolderScore, files: Path) -> Picture:
    """The reliability plot."""
    caption = (
        "Above: the share of right answers among those of similar probability; on the line probabilities "
        f"mean what they say. ECE {100 * score.calibration.error:.1f} %. Below: how many answers there are."
    )
    return save_picture(draw_reliability(score), files, "reliability", "reliability plot", caption)


def draw_reliability(score: FolderScore) -> Figure:
    """Accuracy over probability, and the number of answers below."""
    found = score.calibration.bins
    middles = [(one.low + one.high) / 2 for one in found]
    width = 0.92 * (found[0].high - found[0].low)
    with style():
        figure, (above, below) = new_figure(4.6, 4.4, 2, 1, sharex=True, height_ratios=[3, 1])
        above.plot([0, 1], [0, 100], color=GREY, linestyle="--", label="probability")
        above.bar(
            middles, [100 * (one.accuracy or 0) for one in found], width, color=BLUE, label="right answers"
        )
        above.set_ylim(0, 103)
        above.set_ylabel("right answers, %")
        above.grid(axis="y")
        figure.legend(loc="outside upper center", ncols=2)
        below.bar(middles, [one.images for one in found], width, color=FAINT)
        below.set_ylabel("answers")
        below.set_xlabel("probability of the answer")
        below.set_xlim(0, 1)
    return figure


def _strangers_picture(rejection: Rejection, files: Path) -> Picture:
    """Typicality of own and strange images."""
    caption = (
        "How typical the folder's own images and the strangers are of what was learned; AUROC "
        f"{rejection.auroc:.1f} %. The line is the level up to which an image is rejected."
    )
    return save_picture(draw_typicality(rejection), files, "typicality", "typicality of strangers", caption)


def draw_typicality(rejection: Rejection) -> Figure:
    """Two histograms over each other, in per cent of their images."""
    with style():
        figure, (axis,) = new_figure(5.2, 2.8)
        every = (*rejection.known, *rejection.strange)
        limits = min(0.0, *every), max(1.0, *every)
        for values, colour, label in (
            (rejection.known, BLUE, "own images"),
            (rejection.strange, ORANGE, "strangers"),
        ):
            share = [100 / len(values)] * len(values)
            axis.hist(values, bins=20, range=limits, weights=share, color=colour, alpha=0.6, label=label)
        axis.axvline(rejection.level, color=GREY, linestyle="--")
        axis.set_xlim(*limits)
        axis.set_xlabel("typicality")
        axis.set_ylabel("% of images")
        axis.grid(axis="y")
        figure.legend(loc="outside upper center", ncols=2)
    return figure
