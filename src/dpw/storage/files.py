"""Files that are complete or absent, checked when read, and never run: JSON and safetensors with SHA-256.

Tensor files carry their own hash in their name and never change; one small JSON beside them says which of
them count. Replacing that JSON is the only commit, so a kill at any moment leaves the old or the new state.

What is removed: a tensor file that the state before the last commit named (same size, same hash in its name),
or that the journal of the folder's lock says a writer made; and half-written files of that journal. A file
that is neither stays, whatever its name.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dpw.errors import DamagedFileError, InputError, StorageError
from dpw.storage.journal import TENSOR_FILE
from dpw.storage.lock import journal_of

if TYPE_CHECKING:  # torch takes seconds, and most commands read only JSON
    from torch import Tensor

FORMAT = 1
AGED = 2 * 10**9  # nanoseconds; file systems tell times apart by milliseconds, some by two seconds
MAX_JSON = 64_000_000  # bytes of a JSON file; a model of ten thousand tasks has a tenth of that
OWN_FOLDER = ".dpw-made"  # in every folder of pictures and tables that dpw made
Entries = Sequence[Mapping[str, Any]]


# ------------------------------------------------------------ writing, atomically


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all, even through a power cut."""
    temporary = path.with_name(f".{path.name}.dpw-{secrets.token_hex(4)}.tmp")
    try:
        if path.exists() and not path.is_file():
            raise OSError(errno.EEXIST, "it is a folder, a pipe or a device; choose another name")
        path.parent.mkdir(parents=True, exist_ok=True)
        _note(temporary)
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        _discard(temporary)
        raise StorageError(_why_not_written(path, error), error.errno) from error
    except BaseException:
        _discard(temporary)
        raise


def refuse_foreign_file(path: Path, mark: bytes) -> None:
    """Refuse to replace a file in which the mark of what dpw writes there is missing; an empty one may go.

    Whoever is about to compute for long asks before, so the folder must be there or be possible as well.
    """
    if not is_own(path, mark):
        raise InputError(
            f"{path} is there already and dpw did not write it: remove it or choose another name"
        )
    folder = next(above for above in path.absolute().parents if above.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise StorageError(f"cannot write {path}: {folder} cannot be written to; choose another folder")


def is_own(path: Path, mark: bytes) -> bool:
    """Whether no file of others is at a path: it bears the mark of what dpw writes, is empty or not there."""
    try:
        if not path.is_file() or not path.stat().st_size:
            return path.is_file() or not path.exists()
        with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            return content.find(mark) >= 0
    except OSError as error:
        raise StorageError(_why_not_written(path, error), error.errno) from error


def claim_folder(folder: Path, known: bool = False) -> None:
    """Make a folder for many files, or refuse one of others, in which names might be replaced.

    `known` says that dpw has made it, which a mark in it says otherwise.
    """
    try:
        if not known:
            refuse_foreign_folder(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / OWN_FOLDER).touch()
    except OSError as error:
        raise StorageError(_why_not_written(folder, error), error.errno) from error


def refuse_foreign_folder(folder: Path) -> None:
    """Refuse a folder for many files that is neither empty nor dpw's own."""
    if folder.is_dir() and not (folder / OWN_FOLDER).exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is there already and dpw did not make it: move it or choose another name")


def refuse_link(path: Path) -> None:
    """Refuse to write into a folder or file inside another one that is a link: it may lead anywhere."""
    if path.is_symlink():
        raise InputError(f"{path} is a link: refused, put what it leads to in its place")


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON with a checksum over its own content."""
    body = {key: value for key, value in content.items() if key != "checksum"}
    write_bytes(path, json.dumps({**body, "checksum": _checksum(body)}, indent=2).encode() + b"\n")


def write_tensors(folder: Path, stem: str, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Write tensors under a name that ends in their hash, and give the entry that refers to them."""
    content = _serialized(tensors)
    digest = hashlib.sha256(content).hexdigest()
    name = f"{slug(stem)}-{digest[:16]}.safetensors"
    entry = {"file": name, "sha256": digest, "bytes": len(content)}
    write_entry(folder, entry, content)
    return entry


def write_entry(folder: Path, entry: Mapping[str, Any], content: bytes) -> None:
    """Write the tensor file of an entry, unless it is there with the very bytes."""
    path = folder / entry["file"]
    if not holds(path, entry):
        if not path.exists():
            _note(path)
        write_bytes(path, content)


def holds(path: Path, entry: Mapping[str, Any]) -> bool:
    """Whether a file has the size and the hash of an entry."""
    try:
        return path.stat().st_size == int(entry["bytes"]) and file_digest(path) == str(entry["sha256"])
    except OSError:
        return False


def commit(path: Path, content: Mapping[str, Any] | None, entries: Entries, before: Entries) -> None:
    """Replace the JSON at `path` (None: remove it), then delete tensor files that no entry names any more.

    `before` are the entries of the state that is replaced. The caller holds the folder's lock.
    """
    journal = journal_of(path)
    assert journal is not None, "only a writer commits"
    folder = Path(os.path.realpath(path.parent))
    for entry in before:
        if is_whole(folder, entry):
            journal.note(folder / entry["file"])
    if content is None:
        path.unlink(missing_ok=True)
    else:
        write_json(path, content)
    tidy_up(folder, entries)


def tidy_up(folder: Path, entries: Entries) -> None:
    """Delete the tensor files that this or a killed writer made and that the state of a folder does not name.

    A journal that was found is not believed alone: a file that only it names must also bear its own hash.
    """
    above = Path(os.path.realpath(folder))
    journal = journal_of(above / "any")
    assert journal is not None, "only a writer tidies up"
    used, staying = {entry["file"] for entry in entries}, []
    for made in journal.written_in(above):
        if made.name in used or not TENSOR_FILE.fullmatch(made.name) or made.is_symlink():
            continue
        if not journal.is_inherited(made) or bears_its_digest(made):
            staying += [] if _discard(made) else [made]
    journal.settle(above, staying)


def is_whole(folder: Path, entry: Mapping[str, Any]) -> bool:
    """Whether the file of an entry is there as it was written, as far as name and size tell."""
    try:
        path = tensor_path(folder, entry)
        own_name = path.name.endswith(f"-{entry['sha256'][:16]}.safetensors")
        return own_name and path.stat().st_size == entry["bytes"]
    except (OSError, DamagedFileError, KeyError, TypeError):
        return False


class Seen(NamedTuple):
    """What the system says of a file; any write to it since is seen in it, once the file had some age."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int
    aged: bool  # False: so new that a second write might bear the same time


def seen(file: Path | int) -> Seen:
    """A file (or an open one, by its descriptor) as the system sees it now."""
    found = os.stat(file)  # noqa: PTH116 (of a descriptor, too)
    aged = time.time_ns() - found.st_ctime_ns > AGED
    return Seen(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, aged)


def is_as_seen(path: Path, before: Seen) -> bool:
    """Whether a file that was hashed or written after `before` cannot have been written to since."""
    try:
        return before.aged and seen(path) == before
    except OSError:
        return False


def refuse_without_room(folder: Path, needed: int) -> None:
    """Refuse to begin what the disk has no room for."""
    there = next((path for path in (folder, *folder.absolute().parents) if path.exists()), None)
    free = needed if there is None else shutil.disk_usage(there).free
    if free < needed:
        raise StorageError(
            f"{folder} has room for {free / 1e6:.1f} MB and the training needs {needed / 1e6:.1f} MB: "
            "free some space or choose another disk",
            errno.ENOSPC,
        )


def _note(path: Path) -> None:
    """Write a file that is about to be made into the journal of the folder's lock, if one is held."""
    journal = journal_of(path)
    if journal is not None:
        journal.note(Path(os.path.realpath(path.parent)) / path.name)


# ------------------------------------------------------------ reading, warily


def read_json(path: Path, kind: str) -> dict[str, Any]:
    """Read JSON that `write_json` wrote; a changed byte is noticed."""
    if not path.is_file():
        if not path.parent.exists():
            raise DamagedFileError(f"there is no folder {path.parent}: give the folder of a {kind}")
        raise DamagedFileError(f"{path.parent} is not a {kind}: it has no {path.name}")
    try:
        if path.stat().st_size > MAX_JSON:
            raise DamagedFileError(
                f"{path} has more than {MAX_JSON // 10**6} MB, as no file of dpw does: give a {kind}"
            )
        content = json.loads(path.read_bytes())
        stated = content.pop("checksum")
    except OSError as error:
        raise DamagedFileError(f"{path} cannot be read ({error.strerror}): mend its rights") from error
    except DamagedFileError:
        raise
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise DamagedFileError(
            f"{path} is damaged or was not written by dpw: restore it from a copy"
        ) from error
    if content.get("format") != FORMAT:
        raise DamagedFileError(f"{path} has format {content.get('format')!r}; this dpw reads format {FORMAT}")
    if _checksum(content) != stated:
        raise DamagedFileError(f"{path} was changed after it was written: restore it from a copy")
    return dict(content)


def read_tensors(folder: Path, entry: Mapping[str, Any]) -> dict[str, Tensor]:
    """Read the tensors an entry refers to, after size and hash were found right."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    path = existing_path(folder, entry)
    content = path.read_bytes()
    refuse_digest(path, hashlib.sha256(content).hexdigest(), entry)
    try:
        return load(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise DamagedFileError(f"{path} does not hold valid tensors ({error})") from error


def existing_path(folder: Path, entry: Mapping[str, Any]) -> Path:
    """The path of an entry, where a file of its size is."""
    path = tensor_path(folder, entry)
    if not path.is_file():
        raise DamagedFileError(f"{path} is missing: restore it from a copy")
    refuse_size(path, path.stat().st_size, entry)
    return path


def refuse_size(path: Path, size: int, entry: Mapping[str, Any]) -> None:
    """Refuse a file that is shorter or longer than its entry says."""
    if size != entry["bytes"]:
        raise DamagedFileError(
            f"{path} has {size} bytes instead of {entry['bytes']}: it is truncated or damaged"
        )


def refuse_digest(path: Path, digest: str, entry: Mapping[str, Any]) -> None:
    """Refuse a file whose bytes are not those of its entry."""
    if digest != entry["sha256"]:
        raise DamagedFileError(f"{path} was changed after it was written (its SHA-256 differs): restore it")


def tensor_path(folder: Path, entry: Mapping[str, Any]) -> Path:
    """The path of an entry, which must be a plain name inside the folder."""
    name = entry.get("file")
    if not isinstance(name, str) or not TENSOR_FILE.fullmatch(name):
        raise DamagedFileError(
            f"{folder} refers to {name!r}, which is not a tensor file of this folder: refused"
        )
    path = folder / name
    if path.is_symlink() and not _in_hub_cache(path):
        raise DamagedFileError(f"{path} is a link: refused, copy the file itself into the folder")
    return path


def _in_hub_cache(path: Path) -> bool:
    """Whether a link is one of the hub's own cache: `MODEL/snapshots/REVISION/FILE` to `MODEL/blobs/HASH`."""
    model = path.parent.parent.parent
    in_snapshot = path.parent.parent.name == "snapshots"
    inside = Path(os.path.realpath(path)).parent == Path(os.path.realpath(model / "blobs"))
    return in_snapshot and inside


def tensors_digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of tensors as they would be written."""
    return hashlib.sha256(_serialized(tensors)).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file, read piece by piece."""
    with path.open("rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def bears_its_digest(path: Path) -> bool:
    """Whether a tensor file holds what the hash in its name says, as those that dpw writes do."""
    try:
        return path.is_file() and path.stem.endswith(f"-{file_digest(path)[:16]}")
    except OSError:
        return False


def slug(name: str) -> str:
    """A task name as part of a file name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:80].strip(".-") or "task"


def _serialized(tensors: Mapping[str, Tensor]) -> bytes:
    """Tensors as the bytes of a file."""
    from safetensors.torch import save

    return save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})


def _checksum(content: Mapping[str, Any]) -> str:
    """SHA-256 of JSON content in one fixed spelling."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _sync_folder(folder: Path) -> None:
    """Make a rename durable where the system allows to sync folders."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(descriptor)


def _discard(path: Path) -> bool:
    """Remove a file that may not be there; whether it is gone."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _why_not_written(path: Path, error: OSError) -> str:
    """What stood in the way of a write, and what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"cannot write {path}: the disk is full; free some space and run the command again"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"cannot write {path}: the folder is read-only for you; choose another one"
    return f"cannot write {path}: {error.strerror or error}"
