"""The JSON of a model folder: what is learned and which files hold it, read and changed without tensors.

Listing, forgetting and copying tasks need no method and no CLIP, so nothing here imports torch.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dpw.errors import DamagedFileError, InputError
from dpw.methods.catalog import catalog, refuse_mixed
from dpw.storage import files
from dpw.storage.lock import FILE as LOCK_FILE
from dpw.storage.lock import writing
from dpw.storage.schema import ModelContent, check_content

KIND, TASK_KIND = "dpw-model", "dpw-task"
FILE, TASK_FILE = "model.json", "task.json"


def is_model(folder: Path) -> bool:
    """Whether a folder looks like one of ours (and not like a CLIP checkpoint)."""
    return (folder / FILE).is_file()


def read_model(folder: Path) -> dict[str, Any]:
    """The JSON of a model, checked."""
    content = files.read_json(folder / FILE, "dpw model")
    if content.get("kind") != KIND:
        raise DamagedFileError(f"{folder / FILE} is a {content.get('kind')!r}, not a model")
    check_content(ModelContent, content, folder / FILE)
    return content


def refuse_other_clip(folder: Path, reference: str) -> None:
    """Refuse a CLIP that is named for a model which stands on another one already."""
    own = read_model(folder)["backbone"]["reference"]
    if own not in (reference, durable(reference)):
        raise InputError(f"{folder} stands on {own}, which --model {reference} cannot change: leave it out")


@contextmanager
def changing(folder: Path) -> Iterator[None]:
    """Be the only writer of a model's folder, in which nothing is left over that a killed writer made."""
    with writing(folder):
        with suppress(DamagedFileError):
            if is_model(folder):
                files.tidy_up(folder, entries_of(read_model(folder)))
        yield


def tidy(folder: Path) -> None:
    """Remove what a killed writer left in a folder; one without a lock file is not touched."""
    if (folder / LOCK_FILE).is_file():
        with changing(folder):
            pass


def remove_task(folder: Path, name: str) -> None:
    """Take one task out of a model folder; no other file is touched."""
    read_model(folder)  # a folder that is no model is refused before anything is made in it
    with changing(folder):
        content = read_model(folder)
        _refuse_mixed(folder, content, name)
        find_task(folder, content, name)
        content["tasks"] = [task for task in content["tasks"] if task["name"] != name]
        commit(folder, content)


def export_task(folder: Path, name: str, target: Path) -> None:
    """Copy one task out, with all that is needed to add it to another model over the same CLIP."""
    content = read_model(folder)
    task = find_task(folder, content, name)
    _refuse_mixed(folder, content, name)
    if (target / TASK_FILE).exists() or is_model(target):
        raise InputError(f"{target} already holds a model or a task: choose an empty folder")
    copied = dict(content, kind=TASK_KIND, tasks=[task])
    with writing(target):
        copy_tensors(copied, folder, target)
        files.commit(target / TASK_FILE, copied, entries_of(copied), [])


def read_task(source: Path) -> dict[str, Any]:
    """The JSON of an exported task, checked."""
    given = files.read_json(source / TASK_FILE, "exported dpw task")
    if given.get("kind") != TASK_KIND:
        raise DamagedFileError(f"{source / TASK_FILE} is a {given.get('kind')!r}, not an exported task")
    check_content(ModelContent, given, source / TASK_FILE)
    if len(given["tasks"]) != 1:
        raise DamagedFileError(f"{source / TASK_FILE} holds {len(given['tasks'])} tasks instead of one")
    return given


def copy_tensors(content: Mapping[str, Any], source: Path, target: Path) -> None:
    """Copy the tensor files that a model or task refers to; hashes and names stay."""
    for entry in entries_of(content):
        stem = entry["file"].rsplit("-", 1)[0]
        written = files.write_tensors(target, stem, files.read_tensors(source, entry))
        if written["file"] != entry["file"]:
            raise DamagedFileError(f"{source / entry['file']} was not written by dpw: refused")


def check_files(folder: Path, content: Mapping[str, Any]) -> None:
    """Read every tensor file of a model; the first that is missing, cut off or changed is refused."""
    for entry in entries_of(content):
        path = files.existing_path(folder, entry)
        files.refuse_digest(path, files.file_digest(path), entry)


def find_task(folder: Path, content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The entry of one task."""
    for task in content["tasks"]:
        if task["name"] == name:
            return dict(task)
    known = ", ".join(task["name"] for task in content["tasks"]) or "none"
    raise InputError(f"{folder} has no task called {name!r}; it has: {known}")


def entries_of(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All tensor files a model refers to."""
    shared = [content["shared"]] if content["shared"] is not None else []
    return [*shared, *(task["tensors"] for task in content["tasks"])]


def commit(folder: Path, content: dict[str, Any]) -> None:
    """Make the new state the one that counts, then drop what nothing refers to any more."""
    try:
        before = entries_of(read_model(folder)) if is_model(folder) else []
    except DamagedFileError:
        before = []
    files.commit(folder / FILE, content, entries_of(content), before)


def durable(reference: str) -> str:
    """A folder as an absolute path, so that the model can be loaded from anywhere; names stay names."""
    path = Path(reference)
    return str(path.resolve()) if path.is_dir() else reference


def _refuse_mixed(folder: Path, content: Mapping[str, Any], task: str) -> None:
    """Refuse to take a task out of a model whose method keeps all of them in the same weights."""
    name = content["method"]["name"]
    known = catalog()
    if name not in known:
        raise InputError(f"{folder} was made by method {name!r}, which this dpw does not have")
    refuse_mixed(name, known[name].isolated, task)
