"""A learned model on disk: `model.json` and one tensor file per task, complete without the training data.

`model.json` says which CLIP stands below (name and hash), which method with which settings, and for every
task its classes, templates and the file with its tensors. A single task is exported in the same form.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from dpw.clip.backbone import Backbone
from dpw.errors import DamagedFileError, InputError
from dpw.methods import METHODS, LearnedTask, Method, MethodConfig
from dpw.methods.bank import StoredTask
from dpw.methods.config import stored
from dpw.methods.trial import try_answering
from dpw.storage import files
from dpw.storage.checkpoint import refuse_differences
from dpw.storage.lock import writing
from dpw.storage.model_json import (
    FILE,
    KIND,
    TASK_FILE,
    changing,
    commit,
    copy_tensors,
    durable,
    export_task,
    is_model,
    read_model,
    read_task,
    refuse_other_clip,
    remove_task,
)
from dpw.storage.task_file import TaskFile, open_all, refuse_not_finite

__all__ = [
    "check_backbone",
    "digest",
    "export_task",
    "header",
    "import_task",
    "is_model",
    "learned_task",
    "load_model",
    "read_model",
    "refuse_other_clip",
    "remove_task",
    "save_model",
    "task_json",
]

CLIP = "clip"  # the family of models that name none
Marks = tuple[tuple[str, ...], tuple[tuple[str, int], ...]]


def save_model(method: Method, folder: Path, extra: Mapping[str, Any] | None = None) -> None:
    """Write a model; tasks that are already there unchanged keep their very files.

    `extra` values are committed together with the model.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: choose a folder for the model")
    files.refuse_foreign_file(folder / FILE, KIND.encode())
    shared = method.shared_state()
    with writing(folder):
        _refuse_losing_tasks(method, folder)
        content = {
            **header(method),
            **(extra or {}),
            "kind": KIND,
            "shared": files.write_tensors(folder, "shared", shared) if shared else None,
            "tasks": [
                {**task_json(task), "tensors": _write_task(method, index, folder)}
                for index, task in enumerate(method.tasks)
            ],
        }
        commit(folder, content)
        _remember(method, folder, _state(folder))


# What the JSON of a folder was when a method was read from there or written to it.
_STATES: WeakKeyDictionary[Method, dict[str, str]] = WeakKeyDictionary()


def _state(folder: Path) -> str:
    """The state of a model's folder; empty where it cannot be read."""
    with suppress(OSError):
        small = is_model(folder) and (folder / FILE).stat().st_size <= files.MAX_JSON
        return files.file_digest(folder / FILE) if small else ""
    return ""


def _remember(method: Method, folder: Path, state: str) -> None:
    """Note the state of a folder that a method has in memory."""
    _STATES.setdefault(method, {})[os.path.realpath(folder)] = state


def _refuse_losing_tasks(method: Method, folder: Path) -> None:
    """Refuse to save over a model with tasks that this one never knew, as another writer's may be."""
    known = _STATES.get(method, {}).get(os.path.realpath(folder))
    if not is_model(folder) or known == _state(folder):
        return
    try:
        there = [str(task["name"]) for task in read_model(folder)["tasks"]]
    except DamagedFileError:  # nothing of it can be read any more
        return
    lost = [name for name in there if name not in method.task_names]
    if lost:
        raise InputError(
            f"{folder} has learned {', '.join(lost)}, which this model does not know and would remove: load "
            "it and learn there, or save to another folder"
        )


# The file that a module was written to, which tensors it had then, and the file as it was left.
_FILES: WeakKeyDictionary[nn.Module, tuple[dict[str, Any], Marks, files.Seen]] = WeakKeyDictionary()


def _write_task(method: Method, index: int, folder: Path) -> dict[str, Any]:
    """The entry of a task, whose file is written only if the task is new or another one than before.

    A file that is there is trusted if this process wrote or hashed it and nobody wrote to it since; otherwise
    it is hashed, and written anew if it is not what it should be.
    """
    slot = method.bank.slot(index)
    if isinstance(slot, StoredTask) and isinstance(slot.source, TaskFile):
        return slot.source.write_to(folder)
    marks, known = _marks(method, index), _FILES.get(slot)
    if method.isolated and known is not None and known[1] == marks:
        path = folder / known[0]["file"]
        if files.is_as_seen(path, known[2]):
            return known[0]
        if path.exists():
            before = files.seen(path)
            if files.holds(path, known[0]):
                _FILES[slot] = known[0], marks, before
                return known[0]
    entry = files.write_tensors(folder, method.tasks[index].name, method.task_state(index))
    _FILES[slot] = entry, marks, files.seen(folder / entry["file"])
    return entry


def _marks(method: Method, index: int) -> Marks:
    """What changes when a task is: the names of its tensors and the versions of its parameters.

    Buffers of earlier tasks are put back with equal values while later ones learn, so theirs say nothing.
    """
    own = method.bank.slot(index).named_parameters()
    return tuple(method.task_state(index)), tuple((name, _version(one)) for name, one in own)


def _version(tensor: Tensor) -> int:
    """How often a tensor was changed in place; those of inference mode do not count, nor are they trained."""
    return 0 if tensor.is_inference() else tensor._version


def load_model(folder: Path, create: Callable[[type[Method], MethodConfig, str], Method]) -> Method:
    """Read a model whole.

    `create(kind, config, reference)` makes the method without tasks on its CLIP, which must be the one that
    the model was learned on; `reference` says where that one was found.
    """
    state = _state(folder)  # before it is read, for it may change between
    content = read_model(folder)
    kind = _method_class(folder, content)
    config = stored(kind.config_class, content["method"]["config"])
    method = create(kind, config, content["backbone"]["reference"])
    check_backbone(folder, content["backbone"], method)
    _fill(method, folder, content)
    _remember(method, folder, state)
    return method.eval()


def _fill(method: Method, folder: Path, content: Mapping[str, Any]) -> None:
    """Give a method the shared tensors and the tasks that lie in a folder."""
    method.read_from = str(folder)
    try:
        if content["shared"] is not None:
            method.load_shared_state(_finite_tensors(folder, content["shared"]))
        if method.resident:
            opened = open_all(folder, [task["tensors"] for task in content["tasks"]], method.resident)
            for task, file in zip(content["tasks"], opened, strict=True):
                method.place_task(learned_task(task), file)
            return
        for task in content["tasks"]:
            before = files.seen(files.existing_path(folder, task["tensors"]))
            method.load_task(learned_task(task), _finite_tensors(folder, task["tensors"]))
            _FILES[method.bank[-1]] = task["tensors"], _marks(method, len(method.tasks) - 1), before
    except (KeyError, RuntimeError, TypeError, IndexError, AttributeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DamagedFileError(
            f"{folder}: its tensors do not fit method {method.name!r} ({reason})"
        ) from error


def _finite_tensors(folder: Path, entry: Mapping[str, Any]) -> dict[str, Tensor]:
    """Tensors of a model, none of which may hold what no training leaves behind."""
    tensors = files.read_tensors(folder, entry)
    refuse_not_finite(folder / entry["file"], tensors)
    return tensors


def import_task(folder: Path, source: Path, backbone: str | Path | None = None) -> str:
    """Add one exported task, as `import_tasks` does; gives its name."""
    return import_tasks(folder, [source], backbone)[0]


def import_tasks(folder: Path, sources: Sequence[Path], backbone: str | Path | None = None) -> list[str]:
    """Add exported tasks to a model, the rest of which stays byte for byte, or make a new one of them.

    Every task is tried on the model's CLIP (`backbone` where that has moved) before anything is written, and
    all are added or none. Gives their names, by which they are sorted: any order makes the same model.
    """
    given = sorted((read_task(source) | {"source": source} for source in sources), key=_first_name)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: choose a folder for the model")
    if not is_model(folder):
        _check_tasks(folder, _model_for(given[0]), given, backbone)  # before anything is made
    with changing(folder):
        content = read_model(folder) if is_model(folder) else _model_for(given[0])
        _check_tasks(folder, content, given, backbone)
        for one in given:
            copy_tensors(one, one["source"], folder)
            content["shared"], content["tasks"] = one["shared"], [*content["tasks"], *one["tasks"]]
        commit(folder, content)
    return [_first_name(one) for one in given]


def exported_tasks(source: Path) -> list[Path]:
    """The exported tasks that lie in a folder at any depth; a folder that is one itself is the only one."""
    if (source / TASK_FILE).is_file():
        return [source]
    found = sorted(path.parent for path in source.rglob(TASK_FILE)) if source.is_dir() else []
    if not found:
        raise InputError(f"{source} holds no exported task: give a folder that 'dpw tasks export' made")
    return found


def copy_model(source: Path, target: Path, reference: str | None = None) -> dict[str, Any]:
    """Copy a model whole, every file of it checked on the way; gives its content.

    `reference` names its CLIP as other machines know it; the fingerprint stays.
    """
    content = read_model(source)
    if is_model(target) or (target / TASK_FILE).exists():
        raise InputError(f"{target} already holds a model or a task: choose an empty folder")
    if reference is not None:
        content["backbone"] = {**content["backbone"], "reference": reference}
    with writing(target):
        copy_tensors(content, source, target)
        commit(target, content)
    return content


def _model_for(given: Mapping[str, Any]) -> dict[str, Any]:
    """A model without tasks into which an exported one fits."""
    return {**{key: value for key, value in given.items() if key != "source"}, "kind": KIND, "tasks": []}


def _first_name(given: Mapping[str, Any]) -> str:
    """The name of an exported task."""
    return str(given["tasks"][0]["name"])


def _check_tasks(
    folder: Path, content: Mapping[str, Any], given: Sequence[Mapping[str, Any]], clip: str | Path | None
) -> None:
    """Refuse tasks that a model has already, that do not fit it, or that do not fit each other."""
    present = {task["name"]: folder for task in content["tasks"]}
    shared = content["shared"] if content["tasks"] else given[0]["shared"]
    for one in given:
        source, name = one["source"], _first_name(one)
        if name in present:
            raise InputError(f"{present[name]} already has a task called {name!r}: forget it first")
        present[name] = source
        alone = not all("weights" in side["backbone"] for side in (one, content))
        refuse_differences(source / TASK_FILE, _identity(one, alone), _identity(content, alone))
        if one["shared"] != shared:
            raise InputError(
                f"{source}: the frozen tensors shared by all tasks differ from those of {folder}"
            )
        _try(source, one, clip or content["backbone"]["reference"])


def _try(source: Path, given: Mapping[str, Any], clip: str | Path) -> None:
    """Put an exported task on its CLIP, so that one that does not fit is refused before it is kept."""
    kind = _method_class(source, given)
    config = stored(kind.config_class, given["method"]["config"])
    method = kind(Backbone.from_pretrained(clip, allow_download=False), config)
    check_backbone(source, given["backbone"], method)
    _fill(method, source, given)
    for task in method.bank.stored():
        task.source.read()  # all of it: a stranger's tensors may not be finite
    try_answering(method)


def header(method: Method) -> dict[str, Any]:
    """What a model stands on: the CLIP below and the method with its settings."""
    backbone, family = method.backbone, method.backbone.family.name
    return {
        "format": files.FORMAT,
        "dpw": version("dpw"),
        "backbone": {
            "reference": durable(backbone.reference),
            "fingerprint": backbone.fingerprint(),
            "weights": backbone.weights_fingerprint(),
            "activation": backbone.activation,
            **({} if family == CLIP else {"family": family}),
        },
        "method": {"name": method.name, "config": method.config.model_dump(mode="json")},
    }


def digest(method: Method) -> str:
    """SHA-256 of all that decides a model's answers; where its CLIP is and how it was trained do not."""
    tensors = [method.shared_state(), *(method.task_state(index) for index in range(len(method.tasks)))]
    content = [
        _identity(header(method), weights_alone=False),
        [task_json(task) for task in method.tasks],
        [files.tensors_digest(one) for one in tensors],
    ]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


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
    family = str(stored.get("family", CLIP))
    if family != backbone.family.name:
        raise InputError(
            f"{folder} was learned on a CLIP of family {family!r}, but {backbone.reference} is of family "
            f"{backbone.family.name!r}: use {stored['reference']}"
        )
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
