"""One benchmark run from start to results; finished runs gathered, compared and set beside published ones."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpw.benchmarks import load_benchmark
    from dpw.runs.run import run_benchmark

__all__ = ["load_benchmark", "run_benchmark"]

# Loaded when first used, so that finished runs are compared without importing torch.
_MODULES = {"load_benchmark": "dpw.benchmarks", "run_benchmark": "dpw.runs.run"}


def __getattr__(name: str) -> Any:
    """Import an exported name from its module on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
