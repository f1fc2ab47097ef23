"""The methods, one file or one small package each; asking this package for `METHODS` registers them all.

A method of another package is found by its entry point in the group `dpw.methods`. What needs no tensors
(`catalog.py`, `config.py`) can be imported alone, and then nothing waits for torch.
"""

import importlib
import pkgutil
import warnings
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpw.methods.base import LearnedTask, Method, TaskImages
    from dpw.methods.candidates import Candidates, ClassGroup
    from dpw.methods.config import MethodConfig, TrainingConfig
    from dpw.methods.registry import METHODS, PRESETS, configure, create, register, suited_settings

__all__ = [
    "METHODS",
    "PRESETS",
    "Candidates",
    "ClassGroup",
    "LearnedTask",
    "Method",
    "MethodConfig",
    "TaskImages",
    "TrainingConfig",
    "configure",
    "create",
    "register",
    "suited_settings",
]

_MODULES = {
    "Candidates": "candidates",
    "ClassGroup": "candidates",
    "LearnedTask": "base",
    "Method": "base",
    "MethodConfig": "config",
    "TaskImages": "base",
    "TrainingConfig": "config",
    "register": "registry",
}
# These answer for all methods, so that all must be registered first.
_OF_ALL = ("METHODS", "PRESETS", "configure", "create", "suited_settings")
_registered = False


def __getattr__(name: str) -> Any:
    """Import an exported name from its module on first use."""
    if name in _OF_ALL:
        _register_all()
        return getattr(importlib.import_module(f"{__name__}.registry"), name)
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def _register_all() -> None:
    """Import all methods, which registers them; once."""
    global _registered
    if not _registered:
        _registered = True
        _import_own()
        _import_others()


def _import_own() -> None:
    """Import every file here and below, which registers the methods in them."""
    for found in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(found.name)


def _import_others() -> None:
    """Import the methods of other packages; one that fails is named and the rest goes on."""
    for entry in entry_points(group=__name__):
        try:
            entry.load()
        except Exception as error:
            package = entry.dist.name if entry.dist is not None else entry.value
            warnings.warn(
                f"the methods of package {package!r} cannot be loaded ({type(error).__name__}: {error}): "
                "repair or uninstall it",
                stacklevel=2,
            )
