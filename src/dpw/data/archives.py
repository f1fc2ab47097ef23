"""Unpacking archives that are not trusted: nothing is written outside the target, and no links."""

import gzip
import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from dpw.errors import InputError

MACINTOSH = "__MACOSX"
ENCRYPTED = 1
LONGEST_NAME, DEEPEST_NAME = 1000, 50
DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    FileExistsError,
    IsADirectoryError,
    NotADirectoryError,
    NotImplementedError,
    UnicodeError,
)


def unpack(archive: Path, target: Path, *, name: str | None = None) -> None:
    """Unpack a tar, zip or gz file into an empty folder; refuse it as a whole when a member is unsafe."""
    kind = name or archive.name
    try:
        if kind.endswith((".tar.gz", ".tgz", ".tar")):
            _unpack_tar(archive, target)
        elif kind.endswith(".zip"):
            _unpack_zip(archive, target)
        elif kind.endswith(".gz"):
            with gzip.open(archive) as source:
                _write(source, target / PurePosixPath(kind).stem)
        else:
            raise InputError(f"{archive} is no .tar, .tar.gz, .tgz, .zip or .gz file; unpack it by hand")
    except DAMAGE as error:
        raise InputError(f"{archive} is a damaged archive ({error}); delete it and fetch it again") from error


def _unpack_tar(archive: Path, target: Path) -> None:
    """Unpack the files and folders of a tar archive."""
    with tarfile.open(archive) as tar:
        for member in tar:
            path = _safe_path(target, member.name, archive)
            if member.isdir():
                path.mkdir(parents=True, exist_ok=True)
            elif member.isreg():
                source = tar.extractfile(member)
                assert source is not None
                with source:
                    _write(source, path)
            else:
                raise InputError(
                    f"{archive} has the member {member.name}, a link or device; fetch another copy"
                )


def _unpack_zip(archive: Path, target: Path) -> None:
    """Unpack the files and folders of a zip archive."""
    with zipfile.ZipFile(archive) as file:
        for member in _zip_members(file):
            path = _safe_path(target, member.filename, archive)
            kind = member.external_attr >> 28
            if member.flag_bits & ENCRYPTED:
                raise InputError(f"{archive} is encrypted ({member.filename!r:.80}); unpack it by hand")
            if member.is_dir():
                path.mkdir(parents=True, exist_ok=True)
            elif kind in (0, 8):
                with file.open(member) as source:
                    _write(source, path)
            else:
                raise InputError(
                    f"{archive} has the member {member.filename}, a link or device; fetch another copy"
                )


def _zip_members(file: zipfile.ZipFile) -> Iterator[zipfile.ZipInfo]:
    """All members but the shadow files that a Macintosh adds."""
    return (member for member in file.infolist() if not member.filename.startswith(f"{MACINTOSH}/"))


def _safe_path(target: Path, name: str, archive: Path) -> Path:
    """Where a member goes; names that climb out are refused."""
    parts = PurePosixPath(name).parts
    if len(name) > LONGEST_NAME or len(parts) > DEEPEST_NAME or any(len(p.encode()) > 255 for p in parts):
        raise InputError(
            f"{archive} has a member with an endless name ({name[:40]!r}...); fetch another copy"
        )
    if name.startswith("/") or ".." in parts or "\\" in name or any(":" in part for part in parts[:1]):
        raise InputError(
            f"{archive} has the member {name!r}, which leads out of the folder; fetch another copy"
        )
    return target.joinpath(*parts)


def _write(source: IO[bytes] | gzip.GzipFile, path: Path) -> None:
    """Write one file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
