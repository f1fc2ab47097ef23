"""A learned model on disk: `model.json` and one tensor file per task, complete without the training data.

`model.json` says which CLIP stands below (name and hash), which method with which settings, and for every
task its classes, templates and the file with its tensors. A single task is exported in the same form.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dpw import __version__
from dpw.errors import DamagedFileError, InputError
from dpw.methods import METHODS, LearnedTask, Method, MethodConfig
from dpw.methods.base import refuse_mixed
from dpw.methods.config import build
from dpw.storage import files
from dpw.storage.checkpoint import refuse_differences

KIND, TASK_KIND = "dpw-model", "dpw-task"
FILE, TASK_FILE = "model.json", "task.json"


def is_model(folder: Path) -> bool:
    """Whether a folder looks like one of ours (and not like a CLIP checkpoint)."""
    return (folder / FILE).is_file()


def save_model(method: Method, folder: Path, extra: Mapping[str, Any] | None = None) -> None:
    """Write a model; tasks that are already there unchanged keep their very files.

    `extra` values are committed together with the model.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: choose a folder for the model")
    shared = method.shared_state()
    content = {
        **header(method),
        **(extra or {}),
        "kind": KIND,
        "shared": files.write_tensors(folder, "shared", shared) if shared else None,
        "tasks": [
            {**task_json(task), "tensors": files.write_tensors(folder, task.name, method.task_state(index))}
            for index, task in enumerate(method.tasks)
        ],
    }
    _commit(folder, content)


def load_model(folder: Path, create: Callable[[type[Method], MethodConfig, str], Method]) -> Method:
    """Read a model whole.

    `create(kind, config, reference)` makes the method without tasks on its CLIP, which must be the one that
    the model was learned on; `reference` says where that one was found.
    """
    content = read_model(folder)
    kind = _method_class(folder, content)
    config = build(kind.config_class, content["method"]["config"])
    method = create(kind, config, content["backbone"]["reference"])
    check_backbone(folder, content["backbone"], method)
    try:
        if content["shared"] is not None:
            method.load_shared_state(files.read_tensors(folder, content["shared"]))
        for task in content["tasks"]:
            method.load_task(learned_task(task), files.read_tensors(folder, task["tensors"]))
    except (KeyError, RuntimeError, TypeError, IndexError) as error:
        reason = str(error).splitlines()[0]
        raise DamagedFileError(
            f"{folder}: its tensors do not fit method {method.name!r} ({reason})"
        ) from error
    return method.eval()


def read_model(folder: Path) -> dict[str, Any]:
    """The JSON of a model, checked."""
    content = files.read_json(folder / FILE, "dpw model")
    if content.get("kind") != KIND:
        raise DamagedFileError(f"{folder / FILE} is a {content.get('kind')!r}, not a model")
    return content


def remove_task(folder: Path, name: str) -> None:
    """Take one task out of a model folder; no other file is touched."""
    content = read_model(folder)
    refuse_mixed(_method_class(folder, content), name)
    _find(folder, content, name)
    content["tasks"] = [task for task in content["tasks"] if task["name"] != name]
    _commit(folder, content)


def export_task(folder: Path, name: str, target: Path) -> None:
    """Copy one task out, with all that is needed to add it to another model over the same CLIP."""
    content = read_model(folder)
    task = _find(folder, content, name)
    refuse_mixed(_method_class(folder, content), name)
    if (target / TASK_FILE).exists() or is_model(target):
        raise InputError(f"{target} already holds a model or a task: choose an empty folder")
    copied = dict(content, kind=TASK_KIND, tasks=[task])
    for entry in _entries(copied):
        tensors = files.read_tensors(folder, entry)
        files.write_tensors(target, entry["file"].rsplit("-", 1)[0], tensors)
    files.write_json(target / TASK_FILE, copied)


def import_task(folder: Path, source: Path) -> str:
    """Add an exported task to a model, the rest of which stays byte for byte; gives the task's name."""
    content, given = read_model(folder), files.read_json(source / TASK_FILE, "exported dpw task")
    if given.get("kind") != TASK_KIND:
        raise DamagedFileError(f"{source / TASK_FILE} is a {given.get('kind')!r}, not an exported task")
    task = given["tasks"][0]
    if task["name"] in [present["name"] for present in content["tasks"]]:
        raise InputError(f"{folder} already has a task called {task['name']!r}: forget it first")
    alone = not all("weights" in one["backbone"] for one in (given, content))
    refuse_differences(source / TASK_FILE, _identity(given, alone), _identity(content, alone))
    if content["tasks"] and given["shared"] != content["shared"]:
        raise InputError(f"{source}: the frozen tensors shared by all tasks differ from those of {folder}")
    for entry in _entries(given):
        files.write_tensors(folder, entry["file"].rsplit("-", 1)[0], files.read_tensors(source, entry))
    content["shared"], content["tasks"] = given["shared"], [*content["tasks"], task]
    _commit(folder, content)
    return str(task["name"])


def header(method: Method) -> dict[str, Any]:
    """What a model stands on: the CLIP below and the method with its settings."""
    backbone = method.backbone
    return {
        "format": files.FORMAT,
        "dpw": __version__,
        "backbone": {
            "reference": _durable(backbone.reference),
            "fingerprint": backbone.fingerprint(),
            "weights": backbone.weights_fingerprint(),
            "activation": backbone.activation,
        },
        "method": {"name": method.name, "config": method.config.model_dump(mode="json")},
    }


def task_json(task: LearnedTask) -> dict[str, Any]:
    """A learned task as plain values."""
    return {
        "name": task.name,
        "classes": list(task.classes),
        "templates": list(task.templates),
        "protocol": task.protocol,
        "details": task.details,
    }


def learned_task(content: Mapping[str, Any]) -> LearnedTask:
    """A learned task from plain values."""
    return LearnedTask(
        str(content["name"]),
        tuple(content["classes"]),
        tuple(content["templates"]),
        str(content["protocol"]),
        dict(content["details"]),
    )


def check_backbone(folder: Path, stored: Mapping[str, Any], method: Method) -> None:
    """Refuse to put learned tasks on another CLIP than the one they were learned on."""
    backbone = method.backbone
    if stored["activation"] != backbone.activation:
        raise InputError(
            f"{folder} was learned with activation {stored['activation']!r}, but {backbone.reference} has "
            f"{backbone.activation!r}: use the original CLIP"
        )
    # Models saved before fingerprints covered the configuration name the CLIP by its weights alone.
    own = backbone.fingerprint() if "weights" in stored else backbone.weights_fingerprint()
    if stored["fingerprint"] != own:
        same = stored.get("weights") == backbone.weights_fingerprint()
        part = "configuration's" if same else "weights'"
        raise InputError(
            f"{folder} was learned on another CLIP than {backbone.reference} (the {part} SHA-256 differs): "
            f"use {stored['reference']}"
        )


def _method_class(folder: Path, content: Mapping[str, Any]) -> type[Method]:
    """The method a folder names."""
    name = content["method"]["name"]
    if name not in METHODS:
        raise InputError(f"{folder} was made by method {name!r}, which this dpw does not have")
    return METHODS[name]


def _identity(content: Mapping[str, Any], weights_alone: bool = False) -> dict[str, Any]:
    """What two models must share to exchange tasks; how a task was trained does not matter.

    Of models from earlier versions only the weights of their CLIP are known.
    """
    config = {k: v for k, v in content["method"]["config"].items() if k not in ("training", "seed")}
    backbone = content["backbone"]
    clip = backbone.get("weights", backbone["fingerprint"]) if weights_alone else backbone["fingerprint"]
    return {"CLIP (SHA-256)": clip, "method": content["method"]["name"], **config}


def _find(folder: Path, content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The entry of one task."""
    for task in content["tasks"]:
        if task["name"] == name:
            return dict(task)
    known = ", ".join(task["name"] for task in content["tasks"]) or "none"
    raise InputError(f"{folder} has no task called {name!r}; it has: {known}")


def _entries(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All tensor files a model refers to."""
    shared = [content["shared"]] if content["shared"] is not None else []
    return [*shared, *(task["tensors"] for task in content["tasks"])]


def _commit(folder: Path, content: dict[str, Any]) -> None:
    """Make the new state the one that counts, then drop what nothing refers to any more."""
    files.write_json(folder / FILE, content)
    files.remove_unused(folder, _entries(content))


def _durable(reference: str) -> str:
    """A folder as an absolute path, so that the model can be loaded from anywhere; names stay names."""
    path = Path(reference)
    return str(path.resolve()) if path.is_dir() else reference
