"""`dpw report`, `figures` and `explain`: look instead of read."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from dpw.cli.learn import AllowDownload, Backbone, Json
from dpw.cli.output import say, say_text
from dpw.cli.predict import refuse_no_model


def report(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders of finished runs, or folders that hold such folders.")
    ],
    output: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    as_json: Json = False,
) -> None:
    """Write one self-contained HTML page about finished runs; pictures and tables also as files beside it."""
    from dpw.runs.gathering import read_runs

    read_runs(runs)  # what is no run is refused before anything is drawn
    from dpw.report import write_report

    written = write_report(runs, output)
    files = written.with_name(f"{written.stem}_files")
    if as_json:
        say_text(json.dumps({"report": str(written), "files": str(files)}, indent=2))
        return
    say(f"{written}: open it in a browser; PNG, SVG and CSV are in {files}")


def figures(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run of dpw or dpw-reduced.")],
    beside: Annotated[
        list[Path] | None, typer.Argument(help="Further runs to compare with, such as one of diki.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Folder for the files; RUN/figures by default.")] = None,
    only: Annotated[str | None, typer.Option(help="Names of figures, separated by commas.")] = None,
    tasks: Annotated[
        str | None, typer.Option(help="Two tasks as examples, as A,B; the first and the last by default.")
    ] = None,
    images: Annotated[int, typer.Option(min=1, help="Images of each task to look at, at most.")] = 64,
    as_json: Json = False,
) -> None:
    """Draw the paper's analyses from a finished run, without training anything."""
    from dpw.storage.run_folder import RunFolder

    for one in (run, *(beside or ())):
        RunFolder(one).read_results()  # what is no finished run is refused before torch is there
    from dpw.analysis import make_figures

    folder = output or RunFolder(run).figures
    chosen = None if only is None else [name.strip() for name in only.split(",") if name.strip()]
    pictures = make_figures(
        run,
        folder,
        beside=beside or (),
        only=chosen,
        tasks=None if tasks is None else _two(tasks),
        images=images,
        on_message=lambda name: say(f"drawing {name}", err=True),
    )
    if as_json:
        found = [
            {"name": one.name, "title": one.title, "png": str(folder / f"{one.name}.png")} for one in pictures
        ]
        say_text(json.dumps(found, indent=2))
        return
    for one in pictures:
        say(f"{folder / one.name}.png  {one.title}")


def _two(names: str) -> tuple[str, str]:
    """Two names out of `A,B`."""
    from dpw import InputError

    first, separator, second = (part.strip() for part in names.partition(","))
    if not separator or not first or not second or "," in second:
        raise InputError(f"--tasks {names!r} must name two tasks, as A,B")
    return first, second


def explain(
    model: Annotated[str, typer.Argument(help="A model folder, or the folder of a run.")],
    image: Annotated[Path, typer.Argument(help="An image file.")],
    output: Annotated[
        Path | None, typer.Option(help="The overlay picture (.png or .svg); IMAGE-explained.png by default.")
    ] = None,
    classes: Annotated[str | None, typer.Option(help="Choose between these, separated by commas.")] = None,
    backbone: Backbone = None,
    allow_download: AllowDownload = False,
    as_json: Json = False,
) -> None:
    """Say what was predicted, which task was identified and how surely, and draw what every token took."""
    from dpw.storage.model_json import is_model
    from dpw.storage.run_folder import RunFolder

    inside = RunFolder(model).model
    folder = inside if is_model(inside) else Path(model)
    refuse_no_model(str(folder), backbone, among_learned=classes is None)
    from dpw import ContinualCLIP
    from dpw.analysis import draw_explanation
    from dpw.analysis import explain as find_reasons
    from dpw.report.style import MADE_BY, save_figure
    from dpw.storage.files import refuse_foreign_file

    picture = output or Path(f"{image.stem}-explained.png")
    refuse_foreign_file(picture, MADE_BY.encode())
    learner = ContinualCLIP.from_pretrained(folder, backbone=backbone, allow_download=allow_download)
    chosen = None if classes is None else [name.strip() for name in classes.split(",") if name.strip()]
    found = find_reasons(learner, image, classes=chosen)
    save_figure(draw_explanation(found), picture)
    if as_json:
        say_text(json.dumps({**found.as_json(), "picture": str(picture)}, indent=2))
        return
    _print_explanation(found, learner.method.name, picture)


def _print_explanation(found: Any, method: str, picture: Path) -> None:
    """The explanation in lines."""
    answer = found.prediction
    say(f"{answer.image}: {answer.label}, {100 * answer.probability:.1f} %")
    for label, probability in answer.alternatives:
        say(f"    {label}, {100 * probability:.1f} %")
    for one in found.tasks:
        likelihood = "" if one.log_likelihood is None else f"  log-likelihood {one.log_likelihood:.1f}"
        say(f"  task {one.task:<20} confidence {one.confidence:.3f}{likelihood}")
    if found.tokens is None:
        say(
            f"no weights by token to show for method {method!r}: the picture has only the image and the tasks"
        )
    else:
        tokens = found.tokens
        prefix, adapter = float(tokens.prefix.mean()), float(tokens.adapter.mean())
        say(f"a token took {prefix:.3f} of the prefixes and {adapter:.3f} of the adapter of {tokens.task}")
    say(f"picture: {picture}")
