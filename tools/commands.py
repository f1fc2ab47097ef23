"""Write docs/commands.md from the command line itself, so that the two cannot differ."""

import sys
from pathlib import Path
from typing import Any

import typer

from dpw.cli import app

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
INTRODUCTION = """# Command reference

Made from the commands' own help by `python tools/commands.py`. Wrong input is answered by one sentence and
exit code 2. `--json` makes a command answer a program.
"""


def page() -> str:
    """The whole page."""
    root = typer.main.get_command(app)
    return INTRODUCTION + "".join(section("dpw", command) for command in walk(root))


def walk(group: Any, before: str = "") -> list[tuple[str, Any]]:
    """All commands below a group by their full name."""
    found = []
    for name, command in group.commands.items():
        full = f"{before}{name}"
        found += walk(command, f"{full} ") if hasattr(command, "commands") else [(full, command)]
    return found


def section(program: str, named: tuple[str, Any]) -> str:
    """One command: its sentence, its arguments and its options."""
    name, command = named
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    usage = " ".join([program, name, *(argument_form(argument) for argument in arguments)])
    lines = [f"\n## `{usage}`\n", f"{plain(command.help)}\n"]
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            lines.append(f"- `{parameter.name.upper()}`: {plain(parameter.help)}")
        elif parameter.name != "help":
            lines.append(f"- `{'`, `'.join(parameter.opts)}`: {plain(parameter.help)}{default_of(parameter)}")
    return "\n".join(lines) + "\n"


def plain(text: str) -> str:
    """A sentence of the help whose stars stay stars."""
    return text.replace("*", "\\*")


def argument_form(argument: Any) -> str:
    """An argument as usage lines show it."""
    name = argument.name.upper() + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def default_of(option: Any) -> str:
    """The default, where there is one worth telling."""
    silent = option.default is None or option.default is False or callable(option.default)
    return "" if silent or option.required else f" Default: `{option.default}`."


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE}\n")
