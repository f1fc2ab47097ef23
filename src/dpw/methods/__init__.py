"""The methods, one file or one small package each; importing this package registers them all.

A method of another package is found by its entry point in the group `dpw.methods`.
"""

import importlib
import pkgutil
import warnings
from importlib.metadata import entry_points

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


def _import_own() -> None:
    """Import every file and package here, which registers the methods in them."""
    for found in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{found.name}")


def _import_others() -> None:
    """Import the methods of other packages; one that fails is named and the rest goes on."""
    for entry in entry_points(group="dpw.methods"):
        try:
            entry.load()
        except Exception as error:
            package = entry.dist.name if entry.dist is not None else entry.value
            warnings.warn(
                f"the methods of package {package!r} cannot be loaded ({type(error).__name__}: {error}): "
                "repair or uninstall it",
                stacklevel=2,
            )


_import_own()
_import_others()
