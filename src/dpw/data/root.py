"""A folder that nothing may be read outside of."""

import os
from pathlib import Path, PurePosixPath

from dpw.errors import InputError

IMAGE_SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
)


class Root:
    """Finds files by relative names and refuses every name that leads out; folders are listed once."""

    def __init__(self, path: Path) -> None:
        """Take the folder itself as given, even when it is a link; links inside it may not lead out."""
        if not path.is_dir():
            raise InputError(f"{path} is not a folder; give the folder that holds the images")
        self.path = path.resolve()
        self._listings: dict[Path, dict[str, bool]] = {}
        self._known_inside: dict[Path, bool] = {}

    def problem(self, name: str, named_by: str) -> str | None:
        """Say in one sentence why `name` cannot be read, or nothing when it can."""
        parts = PurePosixPath(name).parts
        if not parts or name.startswith(("/", "\\")) or ".." in parts or "\\" in name or ":" in parts[0]:
            return f"{named_by} names {name!r}, which leads out of {self.path}; give paths inside that folder"
        folder, last = self.path.joinpath(*parts[:-1]), parts[-1]
        entries = self._entries(folder)
        if last not in entries:
            return f"{named_by} names {folder / last}, which does not exist; restore the file or its entry"
        inside = self._inside(folder) and (not entries[last] or self._inside(folder / last))
        if not inside:
            return f"{folder / last} is a link that leads out of {self.path}; put the file itself there"
        return None

    def file(self, name: str, named_by: str) -> Path:
        """Give the path of a file inside the folder, or raise what is wrong with its name."""
        if problem := self.problem(name, named_by):
            raise InputError(problem)
        return self.path / name

    def required(self, name: str, remedy: str) -> Path:
        """Give the path of a file the layout needs, or say how to get it."""
        if PurePosixPath(name).name not in self._entries((self.path / name).parent):
            raise InputError(f"{self.path / name} is missing; {remedy}")
        return self.file(name, "the layout")

    def folders(self, name: str = ".") -> list[str]:
        """Names of the visible folders inside, in ASCII order."""
        folder = self.path / name
        return sorted(
            entry for entry in self._entries(folder) if entry[0] != "." and (folder / entry).is_dir()
        )

    def images(self, name: str) -> list[str]:
        """Relative names of all image files below a folder, in ASCII order."""
        prefix = "" if name == "." else f"{name}/"
        found: list[str] = []
        for entry in sorted(self._entries(self.path / name)):
            if entry.startswith("."):
                continue
            if PurePosixPath(entry).suffix.lower() in IMAGE_SUFFIXES:
                found.append(prefix + entry)
            elif (folder := self.path / name / entry).is_dir():
                if folder.is_symlink():
                    raise InputError(f"{folder} is a link to a folder; put the folder itself there")
                found += self.images(prefix + entry)
        return found

    def _entries(self, folder: Path) -> dict[str, bool]:
        """Names in a folder and whether each is a link; empty when there is no such folder."""
        if folder not in self._listings:
            try:
                with os.scandir(folder) as listing:
                    self._listings[folder] = {entry.name: entry.is_symlink() for entry in listing}
            except (FileNotFoundError, NotADirectoryError):
                self._listings[folder] = {}
            except OSError as error:
                raise InputError(f"{folder} cannot be listed ({error.strerror}); mend its rights") from error
        return self._listings[folder]

    def _inside(self, path: Path) -> bool:
        """Whether a path, with all links followed, is still in the root."""
        if path not in self._known_inside:
            self._known_inside[path] = path.resolve().is_relative_to(self.path)
        return self._known_inside[path]
