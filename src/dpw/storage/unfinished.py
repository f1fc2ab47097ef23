"""A training that was begun in a model folder and not ended: recognised, taken up again, or dropped."""

from contextlib import suppress
from pathlib import Path

from dpw.errors import DamagedFileError, InputError
from dpw.storage import files
from dpw.storage.checkpoint import DATA, TrainingCheckpoint
from dpw.storage.lock import is_own_name, journal_of, left_behind
from dpw.storage.model_json import is_model, read_model

FOLDER = "learning"
DROP = "--discard-unfinished"


def refuse_foreign(folder: Path) -> None:
    """Refuse to make a model of a folder in which something else lies, or to train where a link leads."""
    files.refuse_link(folder / FOLDER)
    if not folder.is_dir() or is_model(folder):
        return
    left = left_behind(folder)
    for path in folder.iterdir():
        known = path.name == FOLDER or is_own_name(path.name)
        if not known and not (path.name in left and files.bears_its_digest(path)):
            raise InputError(
                f"{folder} is neither empty nor a dpw model (it holds {path.name}): choose another folder"
            )


def discard(folder: Path) -> str:
    """Drop the unfinished training of a model folder and say what it was."""
    state = TrainingCheckpoint(folder / FOLDER, {})
    if not state.planned:
        raise InputError(f"{folder} has no unfinished training: leave {DROP} out")
    state.refuse_foreign()
    try:
        name = str(state.read()["identity"].get("task name"))
    except DamagedFileError:
        name = "a damaged one" if state.exists else "a task of which nothing was saved"
    remove(folder)
    return name


def is_finished(folder: Path, task: str, digest: str) -> bool:
    """Whether a task was learned and only the tidying up is missing.

    A process that is killed after the commit leaves the state of a training whose task is in the model, or
    only the plan of it. Another unfinished training is refused, and so is a task that is known already.
    """
    state, learned = TrainingCheckpoint(folder / FOLDER, {}), learned_tasks(folder)
    identity = state.begun() if state.planned else {}
    begun = str(identity.get("task name"))
    journal = journal_of(folder / FOLDER)
    finished = None if journal is None else journal.finished
    if state.folder.is_dir() and (begun in learned or not state.planned):
        end(folder)
    elif state.exists and begun != task:
        raise InputError(
            f"{folder} has an unfinished training of task {begun!r}: finish it with the command that began "
            f"it, or drop it with {DROP}"
        )
    if task not in learned:
        return False
    if (begun == task and identity.get(DATA, digest) == digest) or finished == [task, digest]:
        return True
    raise InputError(
        f"{folder} has already learned a task {task!r}: give this one another --name, forget that one, or "
        "learn it anew with --again"
    )


def learned_tasks(folder: Path) -> list[str]:
    """Names of the tasks that a folder's model knows; none where there is no model yet."""
    return [str(entry["name"]) for entry in read_model(folder)["tasks"]] if is_model(folder) else []


def end(folder: Path) -> None:
    """Remove the state of a training whose task is in the model; the lock says so until all of it is gone."""
    state, journal = TrainingCheckpoint(folder / FOLDER, {}), journal_of(folder / FOLDER)
    with suppress(DamagedFileError):
        if journal is not None and state.planned:
            identity = state.begun()
            journal.finish([identity.get("task name"), identity.get(DATA)])
    remove(folder)


def remove(folder: Path) -> None:
    """Remove the state of a training, and its folder if nothing else lies in it."""
    state = TrainingCheckpoint(folder / FOLDER, {})
    state.clear()
    if state.folder.is_dir() and not any(state.folder.iterdir()):
        state.folder.rmdir()
