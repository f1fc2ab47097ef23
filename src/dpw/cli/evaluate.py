"""`dpw evaluate`: how well a model knows the images of a folder."""

import json
from pathlib import Path
from typing import Annotated

import typer

from dpw.cli.learn import Backbone, Json
from dpw.cli.output import say, say_error, say_text, terminal_width
from dpw.cli.predict import Classes, Template, refuse_no_model, split_names


def evaluate(
    model: Annotated[str, typer.Argument(help="A model folder, or a CLIP (with --classes).")],
    folder: Annotated[
        Path, typer.Argument(help="Images: CLASS/*.jpg, or train, val and test, which are taken together.")
    ],
    classes: Classes = None,
    template: Template = "a photo of a {}.",
    strangers: Annotated[
        Path | None, typer.Option(help="A folder of images of other domains, which should be rejected.")
    ] = None,
    level: Annotated[float, typer.Option(help="Share of own images that may be rejected.")] = 0.05,
    csv: Annotated[Path | None, typer.Option(help="Write every image with its answer into a table.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with all tables and pictures.")] = None,
    backbone: Backbone = None,
    as_json: Json = False,
) -> None:
    """Measure a model on all images of a folder; exit code 2 if any of them cannot be read."""
    from dpw import InputError

    if html is not None and html.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{html} does not end in .html: give the page a name such as evaluation.html")
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give the folder that holds the images")
    refuse_no_model(model, backbone, among_learned=classes is None)
    _refuse_targets(csv, html)
    from dpw import ContinualCLIP
    from dpw.cli.terminal import watched
    from dpw.engine.scoring import score_folder
    from dpw.report.evaluation import as_text, images_csv, write_evaluation
    from dpw.storage.files import write_bytes

    learner = ContinualCLIP.from_pretrained(model, backbone=backbone)
    score = score_folder(
        learner,
        folder,
        classes=split_names(classes),
        template=template,
        strangers=strangers,
        level=level,
        watch=watched,
    )
    say_text(json.dumps(score.as_json(), indent=2) if as_json else as_text(score, terminal_width()))
    if csv is not None:
        write_bytes(csv, images_csv(score).encode(errors="surrogateescape"))
        say(f"{csv}: every image with its answer", err=True)
    if html is not None:
        write_evaluation(score, html)
        say(f"{html}: open it in a browser; PNG, SVG and CSV are in {_files_beside(html)}", err=True)
    for error in score.errors:
        say_error(str(error))
    if score.errors:
        raise typer.Exit(2)


def _refuse_targets(csv: Path | None, html: Path | None) -> None:
    """Refuse to write over what is somebody else's, before anything is measured."""
    from dpw.report.evaluation import HEADER
    from dpw.report.page import WRITTEN_BY
    from dpw.storage.csv_file import csv_line
    from dpw.storage.files import refuse_foreign_file, refuse_foreign_folder

    if csv is not None:
        refuse_foreign_file(csv, csv_line(HEADER).encode())
    if html is not None:
        refuse_foreign_file(html, WRITTEN_BY)
        if not html.is_file():
            refuse_foreign_folder(_files_beside(html))


def _files_beside(html: Path) -> Path:
    """The folder of a page's pictures and tables."""
    return html.with_name(f"{html.stem}_files")
