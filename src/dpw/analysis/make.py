"""All figures of the paper from a finished run, as files."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from dpw.analysis import drawings as draw
from dpw.analysis.cls_scores import cls_scores
from dpw.analysis.cutoffs import cutoff_comparison
from dpw.analysis.prefix_lengths import accuracy_by_prefix_length
from dpw.analysis.queries import query_similarity, token_plane
from dpw.analysis.score_maps import score_maps
from dpw.analysis.subject import Subject, open_prefixes, open_run
from dpw.analysis.timing import component_times
from dpw.analysis.token_weights import output_cosines, weight_distribution
from dpw.errors import InputError
from dpw.report.style import Picture, claim_pictures, need_matplotlib, save_picture
from dpw.runs.gathering import read_runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class Request:
    """What the figures are made from: the run to look into, and others to set beside it."""

    subject: Subject
    folder: Path
    beside: tuple[Path, ...]
    tasks: tuple[str, str]  # examples; the first alone where one is enough

    @property
    def task(self) -> str:
        """The task that stands as an example."""
        return self.tasks[0]


class PaperFigure(NamedTuple):
    """One figure: what it is called, how to read it, its data and its drawing."""

    title: str
    caption: str
    data: Callable[[Request], Any]
    drawing: Callable[[Any], "Figure"]


def _keys(request: Request) -> Any:
    """The DIKI model among the runs beside, if there is one."""
    for run in read_runs(request.beside) if request.beside else ():
        if run.results["method"] == "diki":
            return open_prefixes(run.folder, request.subject)
    return None


def _uniform(request: Request) -> Subject | None:
    """The same method learned with a uniform weight of the adapter, if such a run is beside."""
    for run in read_runs(request.beside) if request.beside else ():
        if run.results["method_config"].get("adapter_weight") == "uniform":
            return open_run(run.folder, request.subject.images)
    return None


FIGURES: Mapping[str, PaperFigure] = {
    "query-similarity": PaperFigure(
        "Relevant and irrelevant tokens",
        "If the dashed line comes near the solid one after the query projection, attention can no longer "
        "tell the object (purple) from the background (green).",
        lambda request: query_similarity(request.subject, request.task),
        draw.draw_query_similarity,
    ),
    "token-plane": PaperFigure(
        "Tokens of two tasks in the plane",
        "Clouds that lie apart before the projection and mix after it have lost what tells the tasks apart.",
        lambda request: token_plane(request.subject, request.tasks),
        draw.draw_token_plane,
    ),
    "token-plane-umap": PaperFigure(
        "Tokens of two tasks in the plane, by UMAP",
        "As above, drawn by UMAP as in the paper.",
        lambda request: token_plane(request.subject, request.tasks, how="umap"),
        draw.draw_token_plane,
    ),
    "score-maps": PaperFigure(
        "Prefix score maps",
        "Bright patches get the highest scores: RePA should light up what matters for the task.",
        lambda request: score_maps(request.subject, keys=_keys(request)),
        draw.draw_score_maps,
    ),
    "weights": PaperFigure(
        "Weight of prefixes and adapter by block",
        "Bars are what a token takes in all, the line is the prefixes' share; unseen tasks should take less.",
        lambda request: weight_distribution(request.subject),
        draw.draw_weight_distribution,
    ),
    "cosines": PaperFigure(
        "Prefix output against adapter output",
        "Near zero means that the adapter adds what no combination of the prefixes can express.",
        lambda request: output_cosines(request.subject, _uniform(request)),
        draw.draw_output_cosines,
    ),
    "cutoffs": PaperFigure(
        "Fixed against dynamic cut-off",
        "The dashed line is the dynamic cut-off; no fixed one should be above it in both plots.",
        lambda request: cutoff_comparison(request.subject),
        draw.draw_cutoffs,
    ),
    "cls-scores": PaperFigure(
        "[CLS] scores and their Gaussian",
        "The closer the histogram to the curve (small distance), the better the cut-off's assumption holds.",
        lambda request: cls_scores(request.subject, request.task),
        draw.draw_cls_scores,
    ),
    "prefix-lengths": PaperFigure(
        "Parameters against accuracy over prefix lengths",
        "Each point is a finished run with L prefixes; up and to the left is better.",
        lambda request: accuracy_by_prefix_length(read_runs([request.folder, *request.beside])),
        draw.draw_prefix_lengths,
    ),
    "times": PaperFigure(
        "Inference time by component",
        "Each bar adds one component to plain CLIP; attention over prefixes is what RePA replaces.",
        lambda request: component_times(request.subject),
        draw.draw_component_times,
    ),
}
ON_REQUEST = ("token-plane-umap",)


def make_figures(
    run: str | Path,
    output: str | Path,
    *,
    beside: Sequence[str | Path] = (),
    only: Sequence[str] | None = None,
    tasks: tuple[str, str] | None = None,
    images: int = 64,
    on_message: Callable[[str], None] | None = None,
) -> list[Picture]:
    """Draw the paper's analyses from a finished run, without training anything.

    Args:
        run: the folder of a finished run of `dpw` or `dpw-reduced`.
        output: the folder for the files: each figure as PNG and SVG, and its data as JSON.
        beside: further finished runs to compare with, such as one of `diki`.
        only: names of figures out of `FIGURES`; by default all but those that need an extra package.
        tasks: two learned tasks that serve as examples; the first and the last by default.
        images: how many images of a task are looked at, at most.
        on_message: called with the name of each figure before it is drawn.

    Returns:
        The figures that were drawn, in order.

    Raises:
        InputError: the run is not finished or of another method, a figure or task is unknown, or matplotlib
            is not installed.
        DamagedFileError: a file of a run was changed or cut off.
        StorageError: a file cannot be written.

    Example:
        >>> import dpw, tempfile
        >>> from dpw.analysis import make_figures
        >>> quick = {"shots": 1, "settings": {"training.iterations": 1}}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found = dpw.run_benchmark("mini", order=["signs"], output=f"{folder}/run", **quick)
        ...     drawn = make_figures(f"{folder}/run", f"{folder}/figures", only=["weights"], images=2)
        >>> [picture.title for picture in drawn]
        ['Weight of prefixes and adapter by block']
    """
    need_matplotlib()
    names = [name for name in FIGURES if name not in ON_REQUEST] if only is None else list(only)
    for name in names:
        if name not in FIGURES:
            raise InputError(f"no figure is called {name!r}; there are {', '.join(FIGURES)}")
    subject = open_run(run, images)
    claim_pictures(Path(output), Path(run))
    request = Request(subject, Path(run), tuple(map(Path, beside)), _examples(subject, tasks))
    pictures = []
    for name in names:
        if on_message is not None:
            on_message(name)
        figure = FIGURES[name]
        data = figure.data(request)
        drawn = figure.drawing(data)
        pictures.append(
            save_picture(drawn, Path(output), name, figure.title, figure.caption, data=plain(data))
        )
    return pictures


def _examples(subject: Subject, tasks: tuple[str, str] | None) -> tuple[str, str]:
    """Two learned tasks."""
    learned = subject.method.task_names
    for name in tasks or ():
        if name not in learned:
            raise InputError(f"task {name!r} is not learned by this run; learned are {', '.join(learned)}")
    return tasks or (learned[0], learned[-1])


def plain(data: Any) -> Any:
    """Data as values that JSON knows."""
    if isinstance(data, Tensor):
        return data.tolist()
    if dataclasses.is_dataclass(data) and not isinstance(data, type):
        return {field.name: plain(getattr(data, field.name)) for field in dataclasses.fields(data)}
    if isinstance(data, Mapping):
        return {str(key): plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [plain(value) for value in data]
    return data
