"""The programs of `tools/` as modules, for their tests."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "tools"


def tool(name: str) -> ModuleType:
    """A tool by the name of its file; what tools import from each other is found as when one is run."""
    if str(TOOLS) not in sys.path:
        sys.path.append(str(TOOLS))
    return import_module(name)
