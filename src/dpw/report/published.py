"""Published figures beside the runs they may be compared with."""

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def published_for(benchmark: str, setting: str) -> Sequence[Any]:
    """What papers report for a benchmark and setting; each entry names its protocol and its source."""
    if find_spec("dpw.published") is None:
        return []
    known = import_module("dpw.published").PUBLISHED
    return [entry for entry in known if entry.benchmark == benchmark and entry.setting == setting]
