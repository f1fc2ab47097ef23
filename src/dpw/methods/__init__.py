"""The methods, one file each; importing this package imports every file in it, and so registers them all."""

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any

from dpw.clip.backbone import Backbone
from dpw.errors import InputError
from dpw.methods.base import METHODS, PRESETS, LearnedTask, Method, TaskImages
from dpw.methods.candidates import Candidates, ClassGroup
from dpw.methods.config import MethodConfig, build, merge

for _file in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_file.name}")

__all__ = [
    "METHODS",
    "PRESETS",
    "Candidates",
    "ClassGroup",
    "LearnedTask",
    "Method",
    "MethodConfig",
    "TaskImages",
    "configure",
    "create",
]


def configure(
    name: str,
    preset: str = "default",
    settings: Mapping[str, Any] | None = None,
    suited: Mapping[str, Any] | None = None,
) -> MethodConfig:
    """The validated settings of a method: its defaults, then a preset, then single settings.

    `suited` is what a benchmark changes in the defaults; presets and settings go over it.
    """
    if name not in METHODS:
        raise InputError(f"no method is called {name!r}; there are {', '.join(sorted(METHODS))}")
    if preset not in PRESETS[name]:
        raise InputError(f"method {name!r} has no preset {preset!r}; there are {', '.join(PRESETS[name])}")
    kind = METHODS[name].config_class
    chosen = merge(merge(kind().model_dump(), suited or {}), PRESETS[name][preset])
    return build(kind, merge(chosen, settings or {}))


def create(
    name: str, backbone: Backbone, preset: str = "default", settings: Mapping[str, Any] | None = None
) -> Method:
    """A method over a backbone, ready to learn its first task."""
    config = configure(name, preset, settings)
    return METHODS[name](backbone, config)
