"""`dpw export`: a model as one file that runs without dpw."""

from pathlib import Path
from typing import Annotated

import typer

from dpw.cli.learn import AllowDownload, Backbone
from dpw.cli.output import say


def export(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    target: Annotated[Path, typer.Argument(help="The file to write: NAME.onnx, or NAME.pt2 for PyTorch.")],
    int8: Annotated[bool, typer.Option("--int8", help="8-bit weights (ONNX): smaller and faster.")] = False,
    all_classes_only: Annotated[
        bool,
        typer.Option("--all-classes-only", help="No questions within one task; smaller with many tasks."),
    ] = False,
    backbone: Backbone = None,
    allow_download: AllowDownload = False,
) -> None:
    """Write a model as one graph for all tasks, to be run by onnxruntime or PyTorch without dpw."""
    from dpw import ContinualCLIP, InputError
    from dpw.serving.export import export as write
    from dpw.storage.model_folder import is_model

    if not is_model(model):
        raise InputError(f"{model} is not a model folder: give one that 'dpw learn' made")
    learner = ContinualCLIP.from_pretrained(model, backbone=backbone, allow_download=allow_download)
    write(learner, target, int8=int8, all_classes_only=all_classes_only)
    classes = sum(map(len, learner.classes.values()))
    size = target.stat().st_size / 1e6
    tasks = "1 task" if len(learner.tasks) == 1 else f"{len(learner.tasks)} tasks"
    say(f"{target}: {tasks}, {classes} classes, {size:.1f} MB")
