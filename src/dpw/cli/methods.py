"""`dpw methods`: all methods, or every setting of one."""

import json
import shutil
import textwrap
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

import typer

from dpw.cli.learn import Json
from dpw.cli.output import say

# What dpw.methods.description says of our own methods, written by tools/method_pages.py: importing all of
# them, and torch with them, takes seconds.
DESCRIBED = Path(__file__).with_name("methods.json")


def methods(
    name: Annotated[str | None, typer.Argument(help="A method to show all settings of.")] = None,
    as_json: Json = False,
) -> None:
    """List the methods, or show every setting of one with its default and meaning."""
    found = described()
    if name is not None:
        entry = _named(name, found)
        say(json.dumps(entry, indent=2) if as_json else _page(entry))
    elif as_json:
        brief = [{key: value for key, value in entry.items() if key != "settings"} for entry in found]
        say(json.dumps(brief, indent=2))
    else:
        say(_list(found))


def described() -> list[dict[str, Any]]:
    """Every method with its settings; where other packages bring methods, theirs are asked too."""
    if entry_points(group="dpw.methods"):
        from dpw.methods import METHODS
        from dpw.methods.description import describe

        return [describe(name) for name in sorted(METHODS)]
    found: list[dict[str, Any]] = json.loads(DESCRIBED.read_text(encoding="utf-8"))
    return found


def _named(name: str, found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The method of a name."""
    from dpw import InputError

    for entry in found:
        if entry["name"] == name:
            return entry
    names = ", ".join(entry["name"] for entry in found)
    raise InputError(f"no method is called {name!r}; there are {names}")


def _list(found: Sequence[dict[str, Any]]) -> str:
    """All methods with their presets."""
    lines = []
    for entry in found:
        lines.append(f"{entry['name']:<14}{entry['summary']}")
        if presets := preset_names(entry["presets"]):
            lines.append(f"{'':<14}presets: {', '.join(presets)}")
        if "reconstruction" in entry["status"]:
            lines.append(f"{'':<14}{entry['status']}")
    return "\n".join([*lines, "", "'dpw methods NAME' shows every setting of a method."])


def _page(entry: dict[str, Any]) -> str:
    """One method: every setting with its default, what it may be, and what it means."""
    lines = [f"{entry['name']}: {entry['summary']}", f"status: {entry['status']}"]
    if presets := [one for one in entry["presets"] if one != "default"]:
        width = shutil.get_terminal_size().columns
        lines += textwrap.wrap(
            f"presets (--preset NAME): {', '.join(presets)}", width, break_on_hyphens=False
        )
    lines += ["", "settings (--set NAME=VALUE), with the default for CLIP ViT-B/16:"]
    for setting in entry["settings"]:
        lines.append(f"  {setting['name']} = {shown(setting['default'])}  ({setting['values']})")
        lines.append(f"      {setting['meaning']}")
    return "\n".join(lines)


def shown(value: Any) -> str:
    """A default as it would be typed."""
    return value if isinstance(value, str) else json.dumps(value)


def preset_names(presets: Sequence[str]) -> list[str]:
    """The presets besides the default one; families such as `ablation/...` only by their size."""
    single = [preset for preset in presets if "/" not in preset and preset != "default"]
    families = [preset.split("/")[0] for preset in presets if "/" in preset]
    return single + [f"{name}/... ({families.count(name)})" for name in dict.fromkeys(families)]
