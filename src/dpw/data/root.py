"""A folder that nothing may be read outside of."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from dpw.errors import InputError

# Those that not every machine can decode, too: a photograph that is passed over in silence is a trap.
IMAGE_SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jfif", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
    | {".avif", ".heic", ".heif"}
)


DEEPEST = 100  # folders in each other


class _Folder(NamedTuple):
    """A folder below the root: whether it really is below it, and which names in it are links."""

    inside: bool
    is_link: dict[str, bool]


class Root:
    """Finds files by relative names and refuses every name that leads out; folders are listed once."""

    def __init__(self, path: Path) -> None:
        """Take the folder itself as given, even when it is a link; links inside it may not lead out."""
        if not os.path.isdir(path):  # noqa: PTH112 (an endless name is no folder either)
            raise InputError(f"{path} is not a folder; give the folder that holds the images")
        self.path = Path(os.path.realpath(path))
        self._folders: dict[str, _Folder] = {}

    def problem(self, name: str, named_by: str) -> str | None:
        """Say in one sentence why `name` cannot be read, or nothing when it can."""
        folder, _, last = name.rpartition("/")
        if name.startswith("/") or not last or not is_inside_name(name):
            return f"{named_by} names {name!r}, which leads out of {self.path}; give paths inside that folder"
        known = self._folder(folder)
        if last not in known.is_link:
            return f"{named_by} names {self.path / name}, which does not exist; restore the file or its entry"
        if not known.inside or (known.is_link[last] and not self._is_inside(name)):
            return f"{self.path / name} is a link that leads out of {self.path}; put the file itself there"
        return None

    def file(self, name: str, named_by: str) -> Path:
        """Give the path of a file inside the folder, or raise what is wrong with its name."""
        if problem := self.problem(name, named_by):
            raise InputError(problem)
        return self.path / name

    def path_text(self, name: str) -> str:
        """The path below the folder as text, the same for every way to write the same name."""
        plain = "//" not in name and "./" not in name
        return f"{self.path}/{name}" if plain else str(self.path / name)

    def required(self, name: str, remedy: str) -> Path:
        """Give the path of a file the layout needs, or say how to get it."""
        folder, _, last = name.rpartition("/")
        if last not in self._folder(folder).is_link:
            raise InputError(f"{self.path / name} is missing; {remedy}")
        return self.file(name, "the layout")

    def folders(self, name: str = "") -> list[str]:
        """Names of the visible folders inside, in ASCII order."""
        entries = sorted(self._folder(name).is_link)
        return [entry for entry in entries if entry[0] != "." and (self.path / name / entry).is_dir()]

    def images(self, name: str) -> list[str]:
        """Relative names of all image files below a folder, in ASCII order."""
        if name.count("/") > DEEPEST:
            raise InputError(f"{self.path} has folders more than {DEEPEST} deep in each other; flatten them")
        prefix = f"{name}/" if name not in ("", ".") else ""
        found: list[str] = []
        for entry in sorted(self._folder(name).is_link):
            if entry.startswith("."):
                continue
            if os.path.splitext(entry)[1].lower() in IMAGE_SUFFIXES:  # noqa: PTH122 (10 times as fast)
                found.append(prefix + entry)
            elif (folder := self.path / name / entry).is_dir():
                if folder.is_symlink():
                    raise InputError(f"{folder} is a link to a folder; put the folder itself there")
                found += self.images(prefix + entry)
        return found

    def _folder(self, name: str) -> _Folder:
        """List a folder once; one that does not exist has no entries."""
        if name not in self._folders:
            try:
                with os.scandir(self.path / name) as listing:
                    is_link = {entry.name: entry.is_symlink() for entry in listing}
            except (FileNotFoundError, NotADirectoryError):
                is_link = {}
            except OSError as error:
                raise InputError(
                    f"{self.path / name} cannot be listed ({error.strerror}); mend its rights"
                ) from error
            self._folders[name] = _Folder(self._is_inside(name), is_link)
        return self._folders[name]

    def _is_inside(self, name: str) -> bool:
        """Whether a path, with all links followed, is still in the root."""
        return Path(os.path.realpath(self.path / name)).is_relative_to(self.path)


def is_inside_name(name: str) -> bool:
    """Whether a relative name has no part that climbs, no backslash, no zero byte and no drive."""
    return ".." not in name.split("/") and "\\" not in name and "\0" not in name and name[1:2] != ":"


def image_files(given: Iterable[Path]) -> Iterator[Path]:
    """Files as they are given, and for folders all image files below, in ASCII order, as they are found.

    A folder without images, one that cannot be listed and a link to a folder stand for themselves, so that
    whoever opens the files can say what is wrong with them.
    """
    for path in given:
        if not path.is_dir():
            yield path
            continue
        below = _images_below(path, DEEPEST)
        yield next(below, path)
        yield from below


def _images_below(folder: Path, deep: int) -> Iterator[Path]:
    """Visible image files of a folder and of those in it; links to folders may lead in circles."""
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError:
        yield folder
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir() and not entry.is_symlink() and deep:
            yield from _images_below(folder / entry.name, deep - 1)
        elif entry.is_dir() or os.path.splitext(entry.name)[1].lower() in IMAGE_SUFFIXES:  # noqa: PTH122
            yield folder / entry.name
