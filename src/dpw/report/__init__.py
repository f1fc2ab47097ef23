"""Reports: `write_report(["runs/a", "runs/b"], "report.html")`, `write_evaluation(score, "folder.html")`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpw.report.build import write_report
    from dpw.report.evaluation import write_evaluation

__all__ = ["write_evaluation", "write_report"]

# Loaded when first used, so that a table in the terminal does not wait for the page.
_MODULES = {"write_evaluation": "dpw.report.evaluation", "write_report": "dpw.report.build"}


def __getattr__(name: str) -> Any:
    """Import an exported name from its module on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
