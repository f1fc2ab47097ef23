"""`dpw predict`: classes of images, on the screen or in a table."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from dpw.cli.cluster import Cluster
from dpw.cli.learn import TEMPLATE, AllowDownload, Backbone, Json
from dpw.cli.output import say, say_error
from dpw.cli.predict_many import predict_many, refuse_mixture

Classes = Annotated[
    str | None, typer.Option(help="Choose between these, separated by commas; learned or not.")
]
Template = Annotated[str, typer.Option(help="Prompt for --classes.")]


def predict(
    model: Annotated[str, typer.Argument(help="A model folder, or a CLIP (with --classes).")],
    images: Annotated[
        list[Path] | None, typer.Argument(help="Image files, and folders of them at any depth.")
    ] = None,
    classes: Classes = None,
    template: Template = TEMPLATE,
    top: Annotated[int, typer.Option(min=1, help="How many classes to name for each image.")] = 1,
    unknown: Annotated[
        float | None,
        typer.Option(help="Say 'unknown' of images less typical than all but this share of a task's own."),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(help="Write a table; one that is there is continued after its last line.")
    ] = None,
    source: Annotated[
        str | None, typer.Option("--from", help="Many images: a folder, a .parquet file, or a bucket.")
    ] = None,
    target: Annotated[
        Path | None, typer.Option("--to", help="With --from: folder of Parquet files, one row an image.")
    ] = None,
    cluster: Cluster = None,
    backbone: Backbone = None,
    allow_download: AllowDownload = False,
    as_json: Json = False,
) -> None:
    """Classify images; nobody needs to say which task they belong to. Exit code 2 if any cannot be read."""
    refuse_missing(model)
    from dpw import ContinualCLIP, InputError

    refuse_mixture(images, source, target, csv, cluster)

    if classes is None and template != TEMPLATE:
        raise InputError(
            "--template has no effect without --classes: learned tasks have their own; leave it out"
        )
    if source is not None and target is not None:
        asked = (model, split_names(classes), template, top, unknown, backbone)
        predict_many(asked, source, target, cluster, as_json)
        return
    assert images is not None, "refused before"
    learner = ContinualCLIP.from_pretrained(model, backbone=backbone, allow_download=allow_download)
    question = {"classes": split_names(classes), "template": template, "top": top, "unknown": unknown}
    if csv is None:
        _show(_answers(learner, images, question), as_json)
    else:
        _write(learner, images, question, csv, as_json)


def refuse_missing(model: str) -> None:
    """Refuse a model that is neither there nor a CLIP's name, before torch is loaded to find that out."""
    from dpw import InputError

    may_be_a_name = model == "mini" or (model.count("/") == 1 and model[0] not in "./")
    if not may_be_a_name and not Path(model).exists():
        raise InputError(
            f"there is no model {model}: give a folder that 'dpw learn' made, or with --classes a CLIP "
            "(mini, a folder, or a hub name such as openai/clip-vit-base-patch16)"
        )


def split_names(names: str | None) -> list[str] | None:
    """Names out of `A, B`."""
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]


def _answers(learner: Any, images: list[Path], question: dict[str, Any]) -> Iterator[Any]:
    """A prediction for every file, also for those in folders."""
    from dpw.data.root import image_files

    found: Iterator[Any] = learner.predict_stream(image_files(images), **question)
    return found


def _show(answers: Iterator[Any], as_json: bool) -> None:
    """Write predictions as they come, or all as one JSON list."""
    failed, found = False, []
    for answer in answers:
        failed = failed or answer.error is not None
        if answer.error is not None:
            say_error(answer.error)
        elif not as_json:
            _show_one(answer)
        if as_json:
            found.append(answer.as_json())
    if as_json:
        say(json.dumps(found, indent=2))
    if failed:
        raise typer.Exit(2)


def _show_one(answer: Any) -> None:
    """One prediction in lines."""
    if answer.probability is None:
        say(f"{answer.image}  {answer.label}  (typicality {answer.typicality or 0:.3f})")
        return
    task = "" if answer.task is None else f"  task {answer.task} ({answer.confidence or 0:.2f})"
    say(f"{answer.image}  {answer.label}  {100 * (answer.probability or 0):.1f} %{task}")
    for label, probability in answer.alternatives:
        say(f"    {label}  {100 * probability:.1f} %")


def _write(learner: Any, images: list[Path], question: dict[str, Any], path: Path, as_json: bool) -> None:
    """Fill the table, from where an earlier call left it; Ctrl-C stops after a whole line."""
    from dpw.cli.terminal import exit_code, stopping, watched
    from dpw.data.root import image_files
    from dpw.engine.prediction_table import PredictionTable

    candidates = learner.question(question["classes"], question["template"])
    table = PredictionTable(path, learner.method, candidates, question["top"], question["unknown"])
    remaining = table.unanswered(image_files(images))
    answers = learner.predict_stream(remaining, **question)
    with stopping() as request:
        for answer in watched(answers, lambda: sum(1 for _ in image_files(images)), table.found):
            table.add(answer)
            if answer.error is not None:
                say_error(answer.error)
            if request():
                say_error(f"stopped after {table.answered} images; the same command goes on")
                raise typer.Exit(exit_code(request))
    counts = {"images": table.answered, "failed": table.failed, "were_there": table.found}
    if as_json:
        say(json.dumps({"csv": str(path), **counts}, indent=2))
    else:
        before = f", {table.found} of them before" if table.found else ""
        say(f"{path}: {table.answered} images{before}, {table.failed} of them could not be read")
    if table.failed:
        raise typer.Exit(2)
