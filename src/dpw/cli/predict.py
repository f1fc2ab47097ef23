"""`dpw predict`: classes of images, on the screen or in a table."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from dpw.cli.cluster import Cluster
from dpw.cli.learn import TEMPLATE, AllowDownload, Backbone, Json
from dpw.cli.output import say, say_error, say_text
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
    from dpw import InputError
    from dpw.methods.candidates import among_given, refuse_impossible

    refuse_mixture(images, source, target, csv, cluster)

    if classes is None and template != TEMPLATE:
        raise InputError(
            "--template has no effect without --classes: learned tasks have their own; leave it out"
        )
    chosen = split_names(classes)
    refuse_impossible(top, unknown)
    if chosen is not None:
        among_given(chosen, template)
    refuse_no_model(model, backbone, among_learned=chosen is None)
    if source is not None and target is not None:
        asked = (model, chosen, template, top, unknown, backbone)
        predict_many(asked, source, target, cluster, as_json)
        return
    assert images is not None, "refused before"
    if csv is None and not as_json and _all_missing(images):
        raise typer.Exit(2)
    from dpw import ContinualCLIP

    learner = ContinualCLIP.from_pretrained(model, backbone=backbone, allow_download=allow_download)
    question = {"classes": chosen, "template": template, "top": top, "unknown": unknown}
    if csv is None:
        _show(_answers(learner, images, question), as_json)
    else:
        _write(learner, images, question, csv, as_json)


def split_names(names: str | None) -> list[str] | None:
    """Names out of `A, B`."""
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]


def refuse_no_model(model: str, backbone: str | None, *, among_learned: bool) -> None:
    """Refuse what is neither a model nor a CLIP, or knows no class to answer with, before torch is there."""
    from dpw import InputError
    from dpw.clip.pretrained import find_clip
    from dpw.storage.model_json import is_model, read_model

    if not is_model(Path(model)):
        find_clip(backbone or model, model_too=backbone is None)
        learned = []
    else:
        learned = read_model(Path(model))["tasks"]
        if backbone is not None:
            find_clip(backbone)
    if among_learned and not learned:
        raise InputError("nothing is learned yet: learn a task first, or give classes to choose from")


def _all_missing(images: list[Path]) -> bool:
    """Whether none of the files is there, each having been named."""
    if any(path.exists() or path.is_symlink() for path in images):
        return False
    for path in images:
        say_error(f"{path} does not exist; give an image file or a folder of them")
    return True


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
        say_text(json.dumps(found, indent=2))
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
        say_text(json.dumps({"csv": str(path), **counts}, indent=2))
    else:
        before = f", {table.found} of them before" if table.found else ""
        say(f"{path}: {table.answered} images{before}, {table.failed} of them could not be read")
    if table.failed:
        raise typer.Exit(2)
