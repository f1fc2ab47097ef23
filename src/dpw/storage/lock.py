"""One writer at a time for each folder, and a journal of what it wrote: the lock file `.dpw.lock`.

The lock is the system's own (`flock`), so it ends with the process however that ends; where a file system has
no such locks, the file itself is the lock and names its holder, whose death is noticed on the same machine.
While a writer works, it notes in the lock file the name of every file before it makes it. A writer that ends
well removes the lock file; after a kill the next writer finds it and knows what may be cleaned up. Nothing
else is ever removed: neither by a pattern of names nor below a folder that was only pointed at.
"""

import errno
import json
import os
import socket
import stat
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from dpw.errors import InputError, StorageError
from dpw.storage.journal import LONGEST, TEMPORARY, TENSOR_FILE, holder_of, is_tensor_file, names, parsed

fcntl: Any = None  # a system without flock: the lock file itself is the lock
with suppress(ImportError):
    import fcntl

FILE = ".dpw.lock"
FINISHED = "finished"
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)

_held: dict[Path, "FolderLock"] = {}
_guard = threading.RLock()


class FolderBusyError(InputError):
    """Somebody else writes into a folder; it can be tried again."""


class FolderLock:
    """The right to write into a folder, held by one thread of one process, and the journal of its files."""

    def __init__(self, folder: Path) -> None:
        """Make the folder if need be and take the lock, or say who holds it."""
        self.folder, self.path = folder, folder / FILE
        self.thread, self.depth = threading.get_ident(), 0
        who = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%F %T")}
        self.holder: dict[str, Any] = who
        self.made = _make(folder)
        self.descriptor: int | None = None
        self.by_name = False  # the file itself is the lock
        self.written: set[str] = set()
        self.inherited: set[str] = set()  # noted by a writer that was killed, or by whoever left the journal
        try:
            self._take()
        except BaseException:
            _unmake(self.made)
            raise

    def note(self, path: Path) -> None:
        """Write down the name of a file that is about to be made."""
        name = path.relative_to(self.folder).as_posix()
        if name not in self.written:
            self.written.add(name)
            if self.descriptor is not None:
                with suppress(OSError):  # without the note the file is only never cleaned up
                    os.write(self.descriptor, json.dumps(name).encode() + b"\n")
                    _sync(self.descriptor)

    def written_in(self, folder: Path) -> list[Path]:
        """The files directly in a folder that this or a killed writer made."""
        paths = (self.folder / name for name in sorted(self.written))
        return [path for path in paths if path.parent == folder]

    def is_inherited(self, path: Path) -> bool:
        """Whether only the journal of an earlier writer says that a file was made by one."""
        return path.relative_to(self.folder).as_posix() in self.inherited

    @property
    def finished(self) -> Any:
        """What this writer, or one that was killed while it tidied up, says that it has finished."""
        return self.holder.get(FINISHED)

    def finish(self, what: Any) -> None:
        """Say what is committed, before the tidying up: after a kill the next writer knows of it."""
        self.holder[FINISHED] = what
        self._write_journal()

    def settle(self, folder: Path, staying: Collection[Path] = ()) -> None:
        """Strike out the files directly in a folder: its state is committed, what was left over is gone.

        `staying` could not be removed; the next writer tries again.
        """
        done = {path for path in self.written_in(folder) if path not in staying}
        self.written -= {path.relative_to(self.folder).as_posix() for path in done}
        if done:
            self._write_journal()

    def release(self) -> None:
        """Remove the lock file and give the lock back; a folder that was made for nothing goes too.

        The journal of tensor files that were made and not committed, or could not be removed, stays.
        """
        if self.descriptor is None:
            return
        if self.by_name or not any(map(is_tensor_file, self.written)):
            with suppress(OSError):
                self.path.unlink(missing_ok=True)
        os.close(self.descriptor)
        self.descriptor = None
        _unmake(self.made)

    def forget(self) -> None:
        """In a forked child: the lock stays the parent's, and only the parent's."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def _take(self) -> None:
        """Open and lock the file; one that was removed meanwhile is made anew."""
        for _ in range(100):
            descriptor = self._open(os.O_RDWR | os.O_CREAT)
            try:
                locked = _lock(descriptor)
            except OSError as error:
                holder = _holder(descriptor)
                os.close(descriptor)
                raise FolderBusyError(_busy(self.folder, holder)) from error
            if locked and _is_at(descriptor, self.path):
                self._begin(descriptor)
                return
            os.close(descriptor)
            if not locked:
                self._take_by_name()
                return
        raise StorageError(f"cannot lock {self.folder}: its lock file keeps changing; run the command again")

    def _take_by_name(self) -> None:
        """Without locks of the system: the file is the lock, unless its holder is known to be dead."""
        for _ in range(100):
            left = _content(self.path)
            if left and not _is_dead(left[0]):
                raise FolderBusyError(_busy(self.folder, left[0]) + f" (if it is not, delete {self.path})")
            if left is not None:
                with suppress(FileNotFoundError):
                    self.path.unlink()
            try:
                descriptor = self._open(os.O_RDWR | os.O_CREAT | os.O_EXCL)
            except FileExistsError:
                continue
            self._inherit(left or [])
            self.by_name = True
            self._begin(descriptor)
            return
        raise StorageError(f"cannot lock {self.folder}: its lock file keeps changing; run the command again")

    def _begin(self, descriptor: int) -> None:
        """Take over what a killed writer left, then say who holds the lock now."""
        self._inherit(parsed(os.pread(descriptor, LONGEST, 0)))
        self.descriptor = descriptor
        for name in sorted(self.written):
            path = self.folder / name
            if TEMPORARY.fullmatch(path.name):
                self.written.discard(name)
                with suppress(OSError):
                    if Path(os.path.realpath(path.parent)).is_relative_to(self.folder):  # no link leads out
                        path.unlink(missing_ok=True)
        self._write_journal()

    def _inherit(self, lines: list[Any]) -> None:
        """Take over the names in a journal that somebody left, and what its writer had finished."""
        self.inherited |= names(lines)
        self.written |= self.inherited
        if FINISHED in (before := holder_of(lines)):
            self.holder[FINISHED] = before[FINISHED]

    def _write_journal(self) -> None:
        """The holder, and below it every file that was made and not yet committed."""
        if self.descriptor is None:
            return
        lines = [json.dumps(self.holder), *map(json.dumps, sorted(self.written))]
        with suppress(OSError):  # a full disk must not stop a command that makes room
            os.ftruncate(self.descriptor, 0)
            os.lseek(self.descriptor, 0, os.SEEK_SET)
            os.write(self.descriptor, "".join(f"{line}\n" for line in lines).encode())
            _sync(self.descriptor)

    def _open(self, flags: int) -> int:
        """Open the lock file itself, never what a link at its place leads to."""
        try:
            descriptor = os.open(self.path, flags | getattr(os, "O_NOFOLLOW", 0), 0o644)
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return descriptor
            os.close(descriptor)
            raise StorageError(f"{self.path} is a pipe or a device: remove it")
        except (FileExistsError, StorageError):
            raise
        except OSError as error:
            if self.path.is_symlink() or self.path.is_dir() or self.path.is_socket():
                raise StorageError(
                    f"{self.path} is a link, a folder or a socket: remove it", error.errno
                ) from error
            raise StorageError(
                f"cannot write {self.folder}: {error.strerror or error}; mend its rights or choose another",
                error.errno,
            ) from error


@contextmanager
def writing(folder: Path) -> Iterator[FolderLock]:
    """Be the only writer of a folder for a while; a holder may ask again, others are told who it is."""
    key = Path(os.path.realpath(folder))
    with _guard:
        lock = _held.get(key)
        if lock is not None and lock.thread != threading.get_ident():
            raise FolderBusyError(_busy(folder, {"pid": os.getpid(), "host": socket.gethostname()}))
        if lock is None:
            lock = _held[key] = FolderLock(key)
        lock.depth += 1
    try:
        yield lock
    finally:
        with _guard:
            lock.depth -= 1
            if not lock.depth:
                _held.pop(key, None)
                lock.release()


@contextmanager
def waiting_to_write(folder: Path, seconds: float) -> Iterator[FolderLock]:
    """As `writing`, but with patience for another writer, who may be a worker that is about to end."""
    deadline = time.monotonic() + seconds
    with ExitStack() as stack:
        while True:
            try:
                lock = stack.enter_context(writing(folder))
                break
            except (FolderBusyError, StorageError) as error:
                gone = getattr(error, "errno", None) == errno.ENOENT  # its last writer has just removed it
                if time.monotonic() > deadline or not (gone or isinstance(error, FolderBusyError)):
                    raise
                time.sleep(0.5)
        yield lock


def journal_of(path: Path) -> FolderLock | None:
    """The lock that this process holds on a file's folder or the nearest folder above it."""
    folder = Path(os.path.realpath(path.parent))
    return next((_held[above] for above in (folder, *folder.parents) if above in _held), None)


def refuse_unwritable(folder: Path) -> None:
    """Refuse a folder into which nothing can be written; one that is not there is left so."""
    made = _make(folder)
    _unmake(made)
    if not made and not os.access(folder, os.W_OK):
        raise StorageError(f"cannot write {folder}: mend the rights or choose another folder", errno.EACCES)


def is_own_name(name: str) -> bool:
    """Whether a file of this name belongs to a writer's housekeeping: the lock, or a half-written file."""
    return name == FILE or TEMPORARY.fullmatch(name) is not None


def left_behind(folder: Path) -> set[str]:
    """The tensor files directly in a folder that a writer noted there and did not live to commit."""
    path = folder / FILE
    if path.is_symlink() or not path.is_file():
        return set()
    return {name for name in names(_content(path) or []) if TENSOR_FILE.fullmatch(name)}


# ------------------------------------------------------------------------------- the system, warily


def _lock(descriptor: int) -> bool:
    """Lock an open file; False where the file system has no locks, OSError where another holds it."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return False
    return True


def _sync(descriptor: int) -> None:
    """Make the journal durable before the files that it names."""
    getattr(os, "fdatasync", os.fsync)(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _holder(descriptor: int) -> Any:
    """Who says in a lock file that it is his; one who has just taken it gets a moment to say so."""
    for _ in range(20):
        if said := holder_of(parsed(os.pread(descriptor, LONGEST, 0))):
            return said
        time.sleep(0.01)
    return {}


def _busy(folder: Path, holder: Any) -> str:
    """Who writes into a folder, as far as it is known."""
    known = holder if isinstance(holder, dict) else {}
    since = f" since {known['since']!s:.20}" if "since" in known else ""
    who = f"process {known.get('pid', '?')!s:.20} on {known.get('host', 'an unknown machine')!s:.80}"
    return f"{folder} is being written by {who}{since}: wait until it has ended, or choose another folder"


def _is_dead(holder: Any) -> bool:
    """Whether the holder of a lock file was a process of this machine that no longer runs."""
    if not isinstance(holder, dict) or holder.get("host") != socket.gethostname():
        return False
    pid = holder.get("pid")
    if not isinstance(pid, int) or pid <= 0:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _content(path: Path) -> list[Any] | None:
    """The lines of a lock file, or None if there is none."""
    try:
        with path.open("rb") as file:
            return parsed(file.read(LONGEST)) or [{}]
    except FileNotFoundError:
        return None


def _make(folder: Path) -> list[Path]:
    """Make a folder with those above it; gives the ones that were not there, the innermost first."""
    missing = [folder]
    try:
        while not missing[-1].exists() and missing[-1] != missing[-1].parent:
            missing.append(missing[-1].parent)
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file: choose a folder")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"cannot write {folder}: {error.strerror or error}; mend the rights or choose another folder",
            error.errno,
        ) from error
    return missing[:-1]


def _unmake(made: list[Path]) -> None:
    """Remove folders that were made for the lock and in which nothing came to be."""
    for folder in made:
        try:
            folder.rmdir()
        except OSError:
            return


def _forget_all() -> None:
    """A forked child holds none of its parent's locks."""
    global _guard
    _guard = threading.RLock()
    for lock in _held.values():
        lock.forget()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
