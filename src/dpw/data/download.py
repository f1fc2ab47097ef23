"""Fetching public datasets on explicit request: resumable, checked, and never half written."""

import hashlib
import http.client
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dpw.data.archives import unpack
from dpw.data.public.catalog import PublicDataset
from dpw.data.public.downloads import ByHand, Download
from dpw.errors import InputError

CHUNK = 1 << 20
TIMEOUT_SECONDS = 60
ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip", ".gz")
RANGE_NOT_SATISFIABLE = 416
PARTIAL_CONTENT = 206

Progress = Callable[[str, int, int | None], None]


def get_public(dataset: PublicDataset, data_root: Path, progress: Progress) -> list[str]:
    """Fetch a dataset into its folder and give what was added; what is already there is kept.

    Everything is fetched, checked and unpacked in a folder beside it first and then moved, so that the
    dataset's folder never holds half a file. What nobody offers any more is asked for at the end.
    """
    folder = data_root / dataset.folder
    work = data_root / f".get-{dataset.name}"
    added = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        work.mkdir(exist_ok=True)
        for download in dataset.downloads:
            if all((folder / name).exists() for name in download.provides):
                continue
            fetched = fetch(download, work, progress)
            added += _put(download, fetched, work / "unpacked", folder)
            fetched.unlink(missing_ok=True)
        with suppress(OSError):  # something of others lies in it
            work.rmdir()
    except OSError as error:
        raise InputError(
            f"{dataset.title} could not be written below {data_root} ({error.strerror or error}); "
            "make room or mend the rights and run the same command again"
        ) from error
    if dataset.by_hand is not None:
        _refuse_missing(dataset.by_hand, folder)
    return added


def _refuse_missing(by_hand: ByHand, folder: Path) -> None:
    """Say what must be put into a dataset's folder by hand, unless it is there."""
    missing = [name for name in by_hand.needs if not (folder / name).exists()]
    if missing:
        raise InputError(by_hand.says.format(folder=folder, missing=", ".join(missing)))


def fetch(download: Download, folder: Path, progress: Progress) -> Path:
    """Download one file, going on where an earlier attempt stopped, and check it."""
    final, part = folder / download.file, folder / f"{download.file}.part"
    if not final.is_file():
        try:
            _transfer_from_either(download, part, progress)
        except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
            raise InputError(
                f"{download.url} cannot be fetched ({error}); run the same command again to go on, "
                f"or put the file at {final} by hand"
            ) from error
        _check(download, part, fetched=True)
        part.replace(final)
    else:
        _check(download, final, fetched=False)
    return final


def _transfer_from_either(download: Download, part: Path, progress: Progress) -> None:
    """Ask the first address and, if it refuses the file, the second one if there is one."""
    try:
        _transfer(download, download.url, part, progress)
    except urllib.error.HTTPError as error:
        if download.second is None:
            raise
        error.close()
        _transfer(download, download.second, part, progress)


def _transfer(download: Download, url: str, part: Path, progress: Progress) -> None:
    """Append to the part file, or begin anew when the server cannot go on."""
    have = part.stat().st_size if part.is_file() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "dpw"})  # noqa: S310 (from the table)
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)  # noqa: S310
    except urllib.error.HTTPError as error:
        if error.code == RANGE_NOT_SATISFIABLE and have:
            error.close()
            return
        raise
    with response:
        resumed = response.status == PARTIAL_CONTENT and _resumes_at(response, have)
        done = have if resumed else 0
        length = response.headers.get("Content-Length")
        total = done + int(length) if length else None
        with part.open("ab" if resumed else "wb") as file:
            while chunk := response.read(CHUNK):
                file.write(chunk)
                done += len(chunk)
                progress(download.file, done, total)
    if total is not None and done != total:
        raise ConnectionError(f"the connection ended after {done} of {total} bytes")


def _resumes_at(response: http.client.HTTPResponse, have: int) -> bool:
    """Whether the server sends the part of the file that is missing."""
    return str(response.headers.get("Content-Range", "")).startswith(f"bytes {have}-")


def _check(download: Download, path: Path, fetched: bool) -> None:
    """Compare size and checksum with the table; a wrong file is deleted if it was fetched by us."""
    wrong = None
    if download.size is not None and path.stat().st_size != download.size:
        wrong = f"has {path.stat().st_size} bytes instead of {download.size}"
    for kind, wanted in {"md5": download.md5, "sha256": download.sha256}.items():
        if wrong is None and wanted is not None and (found := _digest(path, kind)) != wanted:
            wrong = f"has {kind} {found} instead of {wanted}"
    if wrong is not None and not fetched:
        raise InputError(f"{path} {wrong}, unlike {download.url}; replace or delete it, then try again")
    if wrong is not None:
        path.unlink()
        raise InputError(f"{download.url} {wrong}; it was deleted, run the same command again")


def _digest(path: Path, kind: str) -> str:
    """The checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def _put(download: Download, fetched: Path, unpacked: Path, folder: Path) -> list[str]:
    """Unpack if need be and move what is wanted into the dataset's folder."""
    if not download.file.endswith(ARCHIVES):
        return _move(fetched, folder / download.take[0][1])
    shutil.rmtree(unpacked, ignore_errors=True)
    unpacked.mkdir()
    unpack(fetched, unpacked)
    if download.inner is not None:
        unpack(_member(download, unpacked, download.inner), unpacked)
    added = []
    for source, target in download.take:
        member = _member(download, unpacked, source)
        if member.is_dir() and not target:
            added += [name for item in sorted(member.iterdir()) for name in _move(item, folder / item.name)]
        else:
            added += _move(member, folder / target)
    shutil.rmtree(unpacked)
    return added


def _member(download: Download, unpacked: Path, name: str) -> Path:
    """Something that an unpacked archive should hold."""
    if not (unpacked / name).exists():
        raise InputError(f"{download.url} does not hold {name}; the source has changed, unpack it by hand")
    return unpacked / name


def _move(source: Path, target: Path) -> list[str]:
    """Move a file or folder in one step, unless something is already there."""
    if target.exists():
        return []
    source.rename(target)
    return [target.name]
