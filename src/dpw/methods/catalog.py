"""What can be said about the methods without importing one: names, presets, every setting with its meaning.

`catalog.json` is written by tools/method_pages.py from what the methods register, and a test holds it to
that; so `dpw methods` and a misspelt setting are answered before torch is there. A file beside this one that
it does not name may hold a new method, and then the methods are asked themselves.
"""

import functools
import json
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple

from dpw.errors import InputError
from dpw.methods.config import MethodConfig, build, merge, unknown_setting

FILE = Path(__file__).with_name("catalog.json")
FOLDER_METHOD = "dpw-ridge"  # of a person's folder; benchmarks have the paper's `dpw`
GROUP = "dpw.methods"  # of the entry points of other packages


class Setting(NamedTuple):
    """One setting by its dotted name; `values` says what it may be."""

    name: str
    default: Any
    values: str
    meaning: str


class Entry(NamedTuple):
    """One method in words."""

    summary: str
    status: str
    isolated: bool
    presets: list[str]
    settings: list[Setting]

    def as_json(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {**self._asdict(), "settings": [one._asdict() for one in self.settings]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Entry":
        """The entry of plain values."""
        return cls(**{**values, "settings": [Setting(**one) for one in values["settings"]]})


def catalog() -> dict[str, Entry]:
    """All methods by name: ours from the file, new ones and those of other packages from themselves.

    Example:
        >>> from dpw.methods.catalog import catalog
        >>> catalog()["wise-ft"].presets
        ['default', 'zeroshot']
    """
    own = stored()
    new = known_files() != own_files()
    if not new and "dpw.methods.registry" not in sys.modules and not entry_points(group=GROUP):
        return dict(own)
    from dpw.methods import METHODS  # they need torch
    from dpw.methods.description import describe

    found = own | {name: describe(name) for name in METHODS.keys() - own.keys()}
    return dict(sorted(found.items()))


@functools.cache
def stored() -> dict[str, Entry]:
    """Our own methods, as the file says."""
    return {name: Entry.from_json(entry) for name, entry in _content()["methods"].items()}


def known_files() -> list[str]:
    """The Python files from which the file was written."""
    return list(_content()["files"])


def own_files() -> list[str]:
    """The Python files that are there now, by their paths below this folder."""
    here = FILE.parent
    return sorted(path.relative_to(here).as_posix() for path in here.rglob("*.py"))


@functools.cache
def _content() -> dict[str, Any]:
    """What the file holds."""
    content: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return content


def refuse_unknown(name: str, preset: str = "default", settings: Mapping[str, Any] | None = None) -> None:
    """Refuse a method, a preset or a setting that does not exist, and impossible values of the training.

    Values of a method's own settings are checked when the method is configured.

    Example:
        >>> from dpw.methods.catalog import refuse_unknown
        >>> refuse_unknown("dpw", "official", {"training.epochs": 3})
    """
    known = catalog()
    if name not in known:
        raise no_method(name, known)
    for layer in preset.split("+"):
        if layer not in known[name].presets:
            raise no_preset(name, layer, known[name].presets)
    names = [setting.name for setting in known[name].settings]
    wrong = [key for key in settings or {} if not _is_setting(key, names)]
    if wrong:
        problems = "; ".join(unknown_setting(key, names) for key in wrong)
        raise InputError(f"{len(wrong)} wrong setting(s): {problems}")
    common = {key: value for key, value in (settings or {}).items() if key.startswith("training.")}
    build(MethodConfig, merge(MethodConfig, MethodConfig().model_dump(), common))


def no_method(name: str, known: Iterable[str]) -> InputError:
    """The error for a method that does not exist."""
    return InputError(f"no method is called {name!r}; there are {', '.join(sorted(known))}")


def no_preset(name: str, preset: str, known: Iterable[str]) -> InputError:
    """The error for a preset that a method does not have."""
    return InputError(f"method {name!r} has no preset {preset!r}; there are {', '.join(known)}")


def refuse_mixed(name: str, isolated: bool, task: str) -> None:
    """Refuse to take one task out of a method that keeps all of them in the same weights."""
    if not isolated:
        raise InputError(
            f"method {name!r} mixes all tasks in one set of weights, so {task!r} cannot be forgotten or "
            "exported alone"
        )


def _is_setting(key: str, names: list[str]) -> bool:
    """Whether a key is a setting, a section of settings, or an entry of one that is a table."""
    return any(key == name or key.startswith(f"{name}.") or name.startswith(f"{key}.") for name in names)
