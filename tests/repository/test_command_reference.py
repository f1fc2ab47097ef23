"""docs/commands.md is what the commands themselves say."""

import importlib.util
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "commands.py"


def test_the_command_reference_is_up_to_date():
    specification = importlib.util.spec_from_file_location("commands", TOOL)
    tool = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(tool)
    assert tool.PAGE.read_text(encoding="utf-8") == tool.page(), "run: python tools/commands.py"
