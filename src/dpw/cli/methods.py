"""`dpw methods`: all methods, or every setting of one."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from dpw.cli.learn import Json
from dpw.cli.output import say_text, wrapped
from dpw.methods.catalog import Entry, catalog, no_method


def methods(
    name: Annotated[str | None, typer.Argument(help="A method to show all settings of.")] = None,
    as_json: Json = False,
) -> None:
    """List the methods, or show every setting of one with its default and meaning."""
    found = catalog()
    if name is not None and name not in found:
        raise no_method(name, found)
    if name is not None:
        entry = found[name]
        say_text(json.dumps({"name": name, **entry.as_json()}, indent=2) if as_json else _page(name, entry))
    elif as_json:
        say_text(json.dumps([_brief(name, entry) for name, entry in found.items()], indent=2))
    else:
        say_text(_list(found))


def _brief(name: str, entry: Entry) -> dict[str, Any]:
    """A method without its settings."""
    values = {"name": name, **entry.as_json()}
    del values["settings"]
    return values


def _list(found: Mapping[str, Entry]) -> str:
    """All methods with their presets."""
    lines = []
    for name, entry in found.items():
        lines += wrapped(entry.summary, indent=14, first=f"{name:<14}")
        if presets := preset_names(entry.presets):
            lines += wrapped(f"presets: {', '.join(presets)}", indent=14)
        if "reconstruction" in entry.status:
            lines += wrapped(entry.status, indent=14)
    return "\n".join([*lines, "", "'dpw methods NAME' shows every setting of a method."])


def _page(name: str, entry: Entry) -> str:
    """One method: every setting with its default, what it may be, and what it means."""
    lines = wrapped(entry.summary, first=f"{name}: ") + wrapped(entry.status, first="status: ")
    if presets := [one for one in entry.presets if one != "default"]:
        lines += wrapped(f"presets (--preset NAME): {', '.join(presets)}")
    lines += ["", "settings (--set NAME=VALUE), with the default for CLIP ViT-B/16:"]
    for setting in entry.settings:
        given = f"{setting.name} = {shown(setting.default)}  ({setting.values})"
        lines += wrapped(given, indent=4, first="  ")
        lines += wrapped(setting.meaning, indent=6)
    return "\n".join(lines)


def shown(value: Any) -> str:
    """A default as it would be typed."""
    return value if isinstance(value, str) else json.dumps(value)


def preset_names(presets: Sequence[str]) -> list[str]:
    """The presets besides the default one; families such as `ablation/...` only by their size."""
    single = [preset for preset in presets if "/" not in preset and preset != "default"]
    families = [preset.split("/")[0] for preset in presets if "/" in preset]
    return single + [f"{name}/... ({families.count(name)})" for name in dict.fromkeys(families)]
