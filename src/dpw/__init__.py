"""Continual learning of CLIP by Dynamic Prefix Weighting."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# torch and transformers are loaded when one of these is first used, so that `import dpw` stays quick.
_LAZY = {
    "Backbone": "dpw.clip.backbone",
    "ContinualCLIP": "dpw.learner",
    "InputError": "dpw.errors",
    "Task": "dpw.data.task",
}

__all__ = [*_LAZY, "__version__"]


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use."""
    if name not in _LAZY:
        raise AttributeError(f"module 'dpw' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
