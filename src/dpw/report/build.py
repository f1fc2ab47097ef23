"""From finished runs to a report: one page, and beside it a folder with every picture and table."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dpw.errors import InputError
from dpw.report import figures, tables
from dpw.report.findings import finding
from dpw.report.page import WRITTEN_BY, Chapter, Part, page
from dpw.report.style import Picture, need_matplotlib, save_picture
from dpw.report.tables import Table, as_csv
from dpw.runs.gathering import Group, Section, read_runs, sections
from dpw.runs.provenance import PROGRAM
from dpw.storage.files import claim_folder, refuse_foreign_file, slug, write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_report(runs: Sequence[str | Path], output: str | Path) -> Path:
    """Write one HTML page about finished runs, which needs no other file and no network.

    Args:
        runs: folders of finished runs; a folder of runs stands for all finished ones in it.
        output: the page, ending in `.html`. Every picture (PNG, SVG) and table (CSV) is also written into the
            folder `<output without .html>_files` beside it.

    Returns:
        The path of the page.

    Raises:
        InputError: a folder holds no finished run, two runs differ in nothing, not even their seed, `output`
            is no HTML file, or matplotlib is not installed.
        DamagedFileError: a results file was changed or cut off.
        StorageError: the page cannot be written.

    Example:
        >>> import dpw, tempfile
        >>> from dpw.report import write_report
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     options = {"method": "zero-shot", "order": ["signs"], "output": f"{folder}/run"}
        ...     found = dpw.run_benchmark("mini", **options)
        ...     page = write_report([f"{folder}/run"], f"{folder}/report.html")
        ...     page.name, "Accuracy matrix" in page.read_text(encoding="utf-8")
        ('report.html', True)
    """
    need_matplotlib()
    output = Path(output)
    if output.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{output} does not end in .html: give the page a name such as report.html")
    refuse_foreign_file(output, WRITTEN_BY)
    found = sections(read_runs([Path(run) for run in runs]))
    files = output.with_name(f"{output.stem}_files")
    claim_folder(files, known=output.is_file())
    several = len(found) > 1
    chapters = [
        _Writer(files, section, f"{number}-" if several else "").chapter()
        for number, section in enumerate(found, 1)
    ]
    count = sum(len(group.runs) for section in found for group in section.groups)
    introduction = (
        f"{count} finished {'run' if count == 1 else 'runs'}, written by {PROGRAM}. Every number is the one "
        "in the run's results.json; pictures and tables also lie beside this page as files."
    )
    text = page(_title(found), introduction, chapters, files.name)
    write_bytes(output, text.encode())
    return output


def _title(found: Sequence[Section]) -> str:
    """What the page is about."""
    names = dict.fromkeys(str(section.conditions["benchmark"]) for section in found)
    return "Continual learning on " + ", ".join(names)


class _Writer:
    """Writes the files of one section and gives its chapter."""

    def __init__(self, files: Path, section: Section, prefix: str) -> None:
        """`prefix` keeps the names of several sections apart."""
        self.files, self.section, self.prefix = files, section, prefix

    def chapter(self) -> Chapter:
        """All parts in reading order."""
        groups = self.section.groups
        parts = [
            self.part("Summary", "summary", self.table(tables.summary(self.section))),
            self.part("Accuracy matrix", "accuracy", *map(self.accuracy, groups)),
            self.part("Accuracy over time", "over-time", self.over_time()),
            self.lost(),
            *self.by_dataset(),
            *self.identification(),
            self.part("Parameters against accuracy", "parameters", self.parameters()),
            self.part("Time", "time", *self.times()),
            self.part(
                "Configuration and versions",
                "configuration",
                self.table(tables.provenance(self.section)),
                self.table(tables.configuration(self.section)),
            ),
        ]
        return Chapter(self.section.title, f"{self.prefix}top", tuple(parts), finding(self.section))

    def part(self, title: str, anchor: str, *content: Table | Picture) -> Part:
        """A part whose anchor is its own in the whole page."""
        return Part(title, f"{self.prefix}{anchor}", content)

    def table(self, table: Table) -> Table:
        """Write a table beside the page."""
        named = replace(table, name=self.prefix + table.name)
        write_bytes(self.files / f"{named.name}.csv", as_csv(named).encode())
        return named

    def picture(self, figure: "Figure", name: str, title: str, caption: str) -> Picture:
        """Write a figure beside the page."""
        return save_picture(figure, self.files, self.prefix + name, title, caption)

    def accuracy(self, group: Group) -> Picture:
        """The heat map of one method; its numbers lie beside the page."""
        name = f"accuracy-{self.slug(group)}"
        caption = (
            f"{group.label}: each row is the state after one more task, each column a test set. Below the "
            "line the test set's task was learned; above it the answer is zero-shot."
        )
        drawn = self.picture(
            figures.accuracy_heat_map(group), name, f"accuracy matrix of {group.label}", caption
        )
        self.table(tables.accuracy(group, name))
        return replace(drawn, csv=True)

    def over_time(self) -> Picture:
        """Accuracy of every task as tasks go by."""
        caption = (
            "One plot for each test set. Step 0 is plain CLIP; the grey bar marks the step at which the "
            "test set's own task was learned. A line that falls after it shows forgetting."
        )
        figure = figures.accuracy_over_time(self.section)
        return self.picture(figure, "over-time", "accuracy of every task over time", caption)

    def lost(self) -> Part:
        """What was lost by task; a single task can lose nothing, and has only its accuracy."""
        table = self.table(tables.per_task(self.section))
        if len(self.section.tasks) == 1:
            return self.part("Accuracy of the task", "losses", table)
        return self.part("Forgetting and zero-shot loss", "losses", self.losses(), table)

    def losses(self) -> Picture:
        """Forgetting and zero-shot loss."""
        caption = (
            "Above what was lost after a task was learned, below what was lost before. Lower is better; a "
            "bar below zero means that learning other tasks helped."
        )
        return self.picture(
            figures.losses(self.section), "losses", "forgetting and zero-shot loss by task", caption
        )

    def by_dataset(self) -> list[Part]:
        """Beside the published figures of every dataset, where there are any."""
        if not self.section.published:
            return []
        return [self.part("Beside the paper", "by-dataset", self.table(tables.by_dataset(self.section)))]

    def identification(self) -> list[Part]:
        """Where images were sent, for the methods that ask."""
        content: list[Table | Picture] = []
        for group in self.section.groups:
            figure, name = figures.confusion_heat_map(group), f"tasks-{self.slug(group)}"
            if figure is None:
                continue
            caption = f"{group.label}, after the last task: the share of a row's images taken for each task."
            drawn = self.picture(figure, name, f"tasks identified by {group.label}", caption)
            table = tables.confusion(group, name)
            assert table is not None, "what has a picture has a table"
            self.table(table)
            content.append(replace(drawn, csv=True))
        return [self.part("Task identification", "identification", *content)] if content else []

    def parameters(self) -> Picture:
        """Parameters against accuracy."""
        caption = "Up and to the left is better: more accuracy from fewer learned parameters."
        if self.section.published:
            caption += " Hollow points are published figures."
        figure = figures.parameters_against_accuracy(self.section)
        return self.picture(figure, "parameters", "parameters against accuracy", caption)

    def times(self) -> list[Table | Picture]:
        """Seconds by method, and in the files by step."""
        self.table(tables.timings(self.section))
        caption = (
            "Wall time of learning all tasks and of measuring all test sets after each, mean over seeds."
        )
        figure = figures.times(self.section)
        drawn = self.picture(figure, "times", "seconds of learning and measuring", caption)
        return [drawn, self.table(tables.total_timings(self.section))]

    def slug(self, group: Group) -> str:
        """A group's label as part of a file name, unique in the section."""
        labels = [slug(one.label) for one in self.section.groups]
        index = self.section.groups.index(group)
        return labels[index] if labels.count(labels[index]) == 1 else f"{labels[index]}-{index + 1}"
