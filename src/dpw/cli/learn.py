"""`dpw learn`, `forget` and `tasks`: a CLIP of one's own."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dpw.cli.output import say, say_error, say_sentence, say_text

TEMPLATE = "a photo of a {}."


def rarely(*names: str, **options: Any) -> Any:
    """An option that most people leave alone: `--help` shows it in a panel of its own, below the others."""
    return typer.Option(*names, rich_help_panel="Rarely needed", **options)


Json = Annotated[bool, typer.Option("--json", help="Write JSON instead of text.")]
Backbone = Annotated[str | None, rarely(help="Where the CLIP below the model is, if it has moved.")]

AllowDownload = Annotated[
    bool,
    rarely("--allow-download", help="Let the CLIP that a saved model names be fetched."),
]


DiscardUnfinished = Annotated[
    bool, rarely("--discard-unfinished", help="Drop an unfinished training of the model first.")
]
# Shown below `--help`; every line is a paragraph, or it would run into the next.
SETTINGS = """Settings of the method that people change (--set NAME=VALUE):

prefix_length, adapter_rank: size of what a task adds

router_features, covariance, weights: how an image's task is found

All settings of a method, with defaults and meaning: dpw methods NAME"""


def _seconds(value: float) -> float:
    """A time between saved states; NaN would mean never."""
    if not value >= 0:
        raise typer.BadParameter(f"{value} is no time; give a number of seconds that is not negative")
    return value


CheckpointSeconds = Annotated[float, rarely(callback=_seconds, help="Seconds between saved states.")]


def learn(
    folder: Annotated[Path, typer.Argument(help="Images: CLASS/*.jpg, or train/CLASS/*.jpg and so on.")],
    into: Annotated[Path, typer.Option(help="The model folder to teach; made if it is not there.")],
    model: Annotated[
        str | None, typer.Option(help="CLIP for a new model: mini, a folder, a hub name.")
    ] = None,
    method: Annotated[str | None, typer.Option(help="Method of a new model (see 'dpw methods').")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the task; the folder's name by default.")] = None,
    template: Annotated[str, rarely(help="Prompt with {} for the class name.")] = TEMPLATE,
    learning_rate: Annotated[float | None, typer.Option(help="Rate of Adam; found by default.")] = None,
    steps: Annotated[int | None, rarely(help="Training steps; found by default.")] = None,
    epochs: Annotated[int | None, rarely(help="Passes over the images, instead of --steps.")] = None,
    batch_size: Annotated[int | None, rarely(help="Images in a step; 16 by default.")] = None,
    time_limit: Annotated[float, typer.Option(help="Seconds that finding and learning may take.")] = 180.0,
    use_all: Annotated[bool, typer.Option("--use-all", help="Learn from the test images too.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Learn a task of this name anew.")] = False,
    device: Annotated[str | None, rarely(help="Where to compute; found by default.")] = None,
    preset: Annotated[str, rarely(help="Preset of a new model's settings.")] = "default",
    settings: Annotated[list[str] | None, typer.Option("--set", help="A setting, as key=value.")] = None,
    seed: Annotated[int, rarely(help="Seed of the split and of the training.")] = 0,
    checkpoint_seconds: CheckpointSeconds = 30.0,
    discard_unfinished: DiscardUnfinished = False,
    allow_download: AllowDownload = False,
    as_json: Json = False,
) -> None:
    """Teach a model the images of a folder; the same command again continues what was interrupted.

    Rate and length are found on the images; a fifth of a plain folder is kept apart to say how well it went.
    """
    from dataclasses import asdict

    from dpw import Task
    from dpw.data.digest import task_digest
    from dpw.data.task import whole_task
    from dpw.engine.wishes import Wishes, refuse_impossible
    from dpw.storage import unfinished
    from dpw.storage.model_json import changing

    fixed = Wishes(learning_rate, steps, epochs, batch_size, time_limit)
    refuse_impossible(fixed, seed, checkpoint_seconds)
    task = Task.from_folder(folder, name=name, templates=(template,), seed=seed)
    _warn_of_tasks_for_classes(folder, task)
    how = {"use_all": use_all, "again": again, "seed": seed, "checkpoint_seconds": checkpoint_seconds}
    wishes = {**asdict(fixed), **how}
    digest = task_digest(whole_task(task) if use_all else task)
    unfinished.refuse_foreign(into)
    with changing(into):
        if discard_unfinished:
            say(f"dropped the unfinished training of {unfinished.discard(into)}", err=True)
        if not again and unfinished.is_finished(into, task.name, digest):
            known = unfinished.learned_tasks(into)
            say_error(f"{task.name} was already learned from these images")
            content = {"name": task.name, "model": str(into), "tasks": known, "already_learned": True}
            say_text(json.dumps(content, indent=2) if as_json else f"{into} now knows: {', '.join(known)}")
            return
        learner = _open(into, model, method, preset, parse_settings(settings), device, allow_download)
        learned = _teach(learner, task, into, wishes)
    _report_learned(learned, learner.tasks, into, as_json)


def _warn_of_tasks_for_classes(folder: Path, task: Any) -> None:
    """Say so where every image lies a folder deeper than its class, as in a folder of several tasks."""
    labelled = zip(task.train.paths(), task.train.labels, strict=True)
    if all(Path(path).parent.name != task.classes[label] for path, label in labelled):
        say(
            f"{folder} has no image right in its {len(task.classes)} folders, which are taken for classes; "
            f"if each of them is a task, teach {folder / task.classes[0]} and so on",
            err=True,
        )


def _teach(learner: Any, task: Any, into: Path, wishes: dict[str, Any]) -> Any:
    """Learn a task with its state kept in the model's folder, then commit it."""
    from dpw import Interrupted
    from dpw.cli.terminal import TerminalCallback, exit_code, stopping
    from dpw.engine.memory import pass_over_imported
    from dpw.storage import unfinished

    pass_over_imported()
    with stopping() as request:
        try:
            _check_images(learner, task, request)
            learned = learner.learn(
                task,
                **wishes,
                checkpoint=into / unfinished.FOLDER,
                callback=TerminalCallback(),
                should_stop=request,
            )
        except Interrupted as stopped:
            say_error(f"{stopped}; the same command continues from there")
            raise typer.Exit(exit_code(request)) from stopped
    learner.save_pretrained(into)
    unfinished.end(into)
    return learned


def _check_images(learner: Any, task: Any, should_stop: Any) -> None:
    """Read every image once, so that one that cannot be read is known before the training."""
    from dpw.data.pixels import check_readable

    for split in task.splits().values():
        check_readable(learner.cache, split, should_stop)


def _open(
    into: Path,
    model: str | None,
    method: str | None,
    preset: str,
    settings: dict[str, Any],
    device: str | None,
    allow_download: bool,
) -> Any:
    """The model to teach: an existing one, or a new one on a CLIP."""
    from dpw import InputError
    from dpw.clip.pretrained import find_clip
    from dpw.methods.catalog import FOLDER_METHOD, refuse_unknown
    from dpw.storage.model_json import is_model, refuse_other_clip

    if not is_model(into):
        if model is None:
            raise InputError(
                f"{into} is not a model yet: say which CLIP to start from, for example --model mini or "
                "--model openai/clip-vit-base-patch16"
            )
        if allow_download:
            raise InputError(
                f"--allow-download has no effect on the new model {into}: a CLIP that --model names is "
                "always fetched; leave it out"
            )
        refuse_unknown(method or FOLDER_METHOD, preset, settings)
        find_clip(model)
    from dpw import ContinualCLIP

    if is_model(into):
        if model is not None:
            refuse_other_clip(into, model)
        return ContinualCLIP.from_pretrained(
            into, method, preset=preset, settings=settings, device=device, allow_download=allow_download
        )
    assert model is not None
    return ContinualCLIP.from_pretrained(model, method, preset=preset, settings=settings, device=device)


def _report_learned(learned: Any, tasks: list[str], into: Path, as_json: bool) -> None:
    """Say what was learned and how well."""
    if as_json:
        known = {"name": learned.task, "model": str(into), "tasks": tasks}
        content = {**known, "test_accuracy": learned.own_accuracy, **learned.as_json()}
        say_text(json.dumps(content, indent=2))
        return
    for sentence in learned.sentences():
        say_sentence(sentence)
    say_sentence(f"{into} now knows: {', '.join(tasks)}")


def forget(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    task: Annotated[str, typer.Argument(help="The task to remove.")],
) -> None:
    """Remove a task from a model; the others stay as they are, byte for byte."""
    from dpw.storage.model_json import read_model, remove_task

    remove_task(model, task)
    left = ", ".join(entry["name"] for entry in read_model(model)["tasks"]) or "nothing"
    say(f"forgot {task}; {model} now knows: {left}")


class _TasksGroup(TyperGroup):
    """`dpw tasks MODEL` lists; `export` and `import` are commands of their own."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Take anything that is not a command for a model folder to list."""
        if args and args[0] not in self.commands:
            args = ["list", *args]
        return super().resolve_command(ctx, args)


tasks = typer.Typer(cls=_TasksGroup, no_args_is_help=True, help="List, export or import learned tasks.")


@tasks.command("list")
def list_tasks(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    check: Annotated[bool, typer.Option("--check", help="Read every file and compare its SHA-256.")] = False,
    as_json: Json = False,
) -> None:
    """Show what a model has learned ('dpw tasks MODEL' does the same)."""
    from dpw.storage.model_json import check_files, read_model

    content = read_model(model)
    if check:
        check_files(model, content)
        say(f"{model}: every file is as it was written", err=True)
    if as_json:
        say_text(json.dumps(content, indent=2))
        return
    name, clip = content["method"]["name"], content["backbone"]["reference"]
    count = len(content["tasks"])
    say_sentence(f"{model}: method {name} on {clip}, {count} {'task' if count == 1 else 'tasks'}")
    for task in content["tasks"]:
        megabytes = task["tensors"]["bytes"] / 1e6
        shown = ", ".join(task["classes"][:6]) + (", ..." if len(task["classes"]) > 6 else "")
        say_sentence(f"  {task['name']}: {len(task['classes'])} classes ({shown}), {megabytes:.1f} MB")


@tasks.command("export")
def export_one(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    task: Annotated[str, typer.Argument(help="The task to copy out.")],
    target: Annotated[Path, typer.Argument(help="A new folder for it.")],
) -> None:
    """Copy one task out of a model."""
    from dpw.storage.model_json import export_task

    export_task(model, task, target)
    say(f"exported {task} to {target}")


@tasks.command("import")
def import_one(
    model: Annotated[Path, typer.Argument(help="A model folder; a new one is made of the tasks.")],
    source: Annotated[Path, typer.Argument(help="A folder made by 'dpw tasks export', or one with several.")],
    backbone: Backbone = None,
) -> None:
    """Add exported tasks to a model over the same CLIP, or make one of them; all are added or none."""
    from dpw.methods.candidates import equal_names
    from dpw.storage.model_folder import exported_tasks, import_tasks, read_model

    names = import_tasks(model, exported_tasks(source), backbone)
    say(f"imported {', '.join(names)} into {model}")
    known = {task["name"]: task["classes"] for task in read_model(model)["tasks"]}
    for name, tasks in equal_names(known).items():
        say(f"{' and '.join(tasks)} know the same class: {name}", err=True)


def parse_settings(settings: list[str] | None) -> dict[str, Any]:
    """Turn `key=value` into settings; values are read as YAML, so numbers are numbers."""
    from dpw import InputError
    from dpw.data.yaml_text import ERRORS, parse_yaml

    parsed: dict[str, Any] = {}
    for setting in settings or []:
        key, separator, value = setting.partition("=")
        if not separator or not key:
            raise InputError(f"--set {setting!r} is not of the form key=value")
        try:
            parsed[key.strip()] = parse_yaml(value)
        except ERRORS as error:
            raise InputError(f"--set {setting!r}: the value cannot be read") from error
    return parsed
