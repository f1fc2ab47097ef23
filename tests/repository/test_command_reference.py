"""docs/commands.md is what the commands themselves say."""

from tests.helpers.tools import tool


def test_the_command_reference_is_up_to_date():
    commands = tool("commands")
    assert commands.PAGE.read_text(encoding="utf-8") == commands.page(), "run: python tools/commands.py"
