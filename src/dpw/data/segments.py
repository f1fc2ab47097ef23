"""Records of equal size on disk, found by key: the storage under the pixel cache.

Records lie in segments: `NAME.pixels` holds them one after another and `NAME.index` has an entry for each,
written after its record. A segment has one writer, the process that made it, so processes need no lock; each
reads the segments of all. A record whose checksum fails, or whose segment is gone, counts as not there.
"""

import contextlib
import logging
import mmap
import os
import re
import struct
import time
import uuid
import weakref
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpw.errors import InputError

RECORDS_IN_SEGMENT = 256
SEGMENTS_AT_LEAST = 16
ENTRY = struct.Struct("<20sII")
KEY_BYTES = 20
OWN = re.compile(r".*/pixels-[0-9a-f]{16}/[0-9a-f]{32}\.pixels", re.DOTALL)

Record = npt.NDArray[np.uint8]
_log = logging.getLogger(__name__)
_warned: set[str] = set()


class _Location(NamedTuple):
    """Where a record lies and what its checksum is."""

    segment: str
    slot: int
    checksum: int


class SegmentStore:
    """Keeps records in `base/kind`; all kinds below `base` together stay within `max_bytes`."""

    def __init__(self, base: Path, kind: str, record_bytes: int, max_bytes: int) -> None:
        """Open the folder (made when absent) without reading any record."""
        self._base, self._folder = base, base / kind
        self._record_bytes, self._max_bytes = record_bytes, max_bytes
        self._opened = time.time()
        self._locations: dict[bytes, _Location] = {}
        self._index_read: dict[str, int] = {}
        self._verified: set[_Location] = set()
        self._used: set[str] = set()
        self._full = False
        self._writer = _Writer(self._folder, record_bytes)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            raise InputError(
                f"cache folder {self._folder} cannot be made ({error}); choose another one"
            ) from error
        self._finalizer = weakref.finalize(self, _Writer.finish, self._writer)

    def read(self, keys: Sequence[bytes]) -> Iterator[tuple[int, Record]]:
        """Yield (position in `keys`, record) for every record found, in any order."""
        by_segment: dict[str, list[int]] = defaultdict(list)
        for position, key in enumerate(keys):
            if key in self._locations:
                by_segment[self._locations[key].segment].append(position)
        for segment, positions in by_segment.items():
            yield from self._read_segment(segment, keys, positions)

    def refresh(self) -> None:
        """Learn of records written since the last look, by this process or others."""
        for path in self._folder.glob("*.index"):
            start = self._index_read.get(path.stem, 0)
            with contextlib.suppress(OSError):
                if not path.is_file():
                    continue
                if path.stat().st_size - start < ENTRY.size:
                    continue
                with path.open("rb") as file:
                    file.seek(start)
                    content = file.read()
                whole = len(content) // ENTRY.size * ENTRY.size
                for key, slot, checksum in ENTRY.iter_unpack(content[:whole]):
                    self._locations[key] = _Location(path.stem, slot, checksum)
                self._index_read[path.stem] = start + whole

    def add(self, records: Iterable[tuple[bytes, Record]]) -> None:
        """Write records while there is room; a full disk or bound only means that they are not kept."""
        try:
            for key, record in records:
                if self._writer.is_full and not self._begin_segment():
                    return
                slot, checksum = self._writer.write(key, record)
                self._locations[key] = _Location(self._writer.name, slot, checksum)
                self._used.add(self._writer.name)
        except OSError as error:
            self._full = True
            self._writer.finish()
            warn_uncached(f"{self._folder}: {error}", "no longer")

    def close(self) -> None:
        """Give back the space that the last segment reserved and did not need."""
        self._writer.finish()

    def _read_segment(
        self, segment: str, keys: Sequence[bytes], positions: list[int]
    ) -> Iterator[tuple[int, Record]]:
        """Map one segment and yield copies of the wanted records; memory does not grow with the cache."""
        path = self._folder / f"{segment}.pixels"
        try:
            self._mark_used(segment, path)
            if not path.is_file():
                raise FileNotFoundError(path)
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                for position in positions:
                    if (record := self._record(mapped, keys[position])) is not None:
                        yield position, record
        except (OSError, ValueError):
            for position in positions:
                self._locations.pop(keys[position], None)

    def _record(self, mapped: mmap.mmap, key: bytes) -> Record | None:
        """Copy one record out of a mapped segment; its checksum is compared the first time."""
        location = self._locations.get(key)
        if location is None:
            return None
        start = location.slot * self._record_bytes
        content = mapped[start : start + self._record_bytes]
        if location not in self._verified:
            if len(content) != self._record_bytes or zlib.crc32(content) != location.checksum:
                del self._locations[key]
                return None
            self._verified.add(location)
        return np.frombuffer(content, dtype=np.uint8)

    def _mark_used(self, segment: str, path: Path) -> None:
        """Note once for each process that a segment is in use, so that it is not the next to be removed."""
        if segment not in self._used:
            self._used.add(segment)
            with contextlib.suppress(OSError):
                os.utime(path)

    def _begin_segment(self) -> bool:
        """Reserve room for a new segment; older, unused segments make way."""
        if self._full:
            return False
        capacity = max(1, min(RECORDS_IN_SEGMENT, self._max_bytes // self._record_bytes // SEGMENTS_AT_LEAST))
        needed = capacity * self._record_bytes + RECORDS_IN_SEGMENT * ENTRY.size
        if needed <= self._max_bytes:
            self._make_way(needed)
        if _total_bytes(self._base) + needed <= self._max_bytes:
            self._writer.begin(capacity)
            if _total_bytes(self._base) <= self._max_bytes:
                return True
            self._writer.abandon()
        self._full = True
        return False

    def _make_way(self, needed: int) -> None:
        """Remove segments that were not used since this store was opened, the oldest first."""
        ages = [(age, path) for path in _segments(self._base) if (age := _modified(path)) < self._opened]
        for _, path in sorted(ages):
            if _total_bytes(self._base) + needed <= self._max_bytes:
                return
            if path.stem not in self._used:
                path.unlink(missing_ok=True)
                path.with_suffix(".index").unlink(missing_ok=True)


def warn_uncached(why: str, since: str = "not") -> None:
    """Say once that pixels are decoded anew each time, and what helps."""
    if why not in _warned:
        _warned.add(why)
        _log.warning("pixels are %s cached (%s): set DPW_CACHE to a folder that can be written", since, why)


class _Writer:
    """The one segment this process is filling."""

    def __init__(self, folder: Path, record_bytes: int) -> None:
        """Begin without a segment."""
        self._folder, self._record_bytes = folder, record_bytes
        self.name = ""
        self._process, self._capacity, self._filled = os.getpid(), 0, 0

    @property
    def is_full(self) -> bool:
        """Whether the next record needs a new segment; a forked child never writes to its parent's."""
        return self._filled >= self._capacity or self._process != os.getpid()

    def begin(self, capacity: int) -> None:
        """Make a segment of reserved, still unwritten length."""
        self.finish()
        self.name, self._process = uuid.uuid4().hex, os.getpid()
        self._capacity, self._filled = capacity, 0
        with self._path(".pixels").open("xb") as file:
            file.truncate(capacity * self._record_bytes)
        self._path(".index").touch(exist_ok=False)

    def write(self, key: bytes, record: Record) -> tuple[int, int]:
        """Write a record and then its entry; give slot and checksum."""
        slot, content = self._filled, record.tobytes()
        with self._path(".pixels").open("r+b") as file:
            file.seek(slot * self._record_bytes)
            file.write(content)
        entry = ENTRY.pack(key, slot, checksum := zlib.crc32(content))
        with self._path(".index").open("ab") as file:
            file.write(entry)
        self._filled += 1
        return slot, checksum

    def finish(self) -> None:
        """Cut the segment to what was written."""
        if self.name and self._process == os.getpid():
            if not self._filled:
                self.abandon()
                return
            with contextlib.suppress(OSError):
                os.truncate(self._path(".pixels"), self._filled * self._record_bytes)
            self._capacity = self._filled

    def abandon(self) -> None:
        """Remove the segment."""
        self._path(".pixels").unlink(missing_ok=True)
        self._path(".index").unlink(missing_ok=True)
        self.name, self._capacity, self._filled = "", 0, 0

    def _path(self, suffix: str) -> Path:
        """The path of one of the segment's two files."""
        return self._folder / f"{self.name}{suffix}"


def _segments(base: Path) -> list[Path]:
    """All segments below a folder, of every kind; what others call alike is neither counted nor removed."""
    found = base.glob("pixels-*/*.pixels")
    return [path for path in found if OWN.fullmatch(path.as_posix()) and path.with_suffix(".index").is_file()]


def _total_bytes(base: Path) -> int:
    """Bytes taken or reserved by all segments and their indexes."""
    total = 0
    for path in _segments(base):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size + RECORDS_IN_SEGMENT * ENTRY.size
    return total


def _modified(path: Path) -> float:
    """When a segment was last written or taken into use; the far future when it is already gone."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")
