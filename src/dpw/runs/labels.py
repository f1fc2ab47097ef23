"""What runs are called: in full where a row stands alone, in short where room is scarce."""

from collections.abc import Mapping, Sequence
from typing import Any

Results = Mapping[str, Any]


def full_label(content: Results) -> str:
    """The method, its preset, the settings that were changed, and a decision that images share."""
    name = str(content["method"])
    if content["preset"] != "default":
        name += f" ({content['preset']})"
    own = content["settings"]["settings"]
    if own:
        name += " {" + ", ".join(f"{key}={value}" for key, value in sorted(own.items())) + "}"
    return name if content["decision"] == "per-image" else f"{name} [{content['decision']}]"


def short_labels(contents: Sequence[Results]) -> list[str]:
    """The method, then only what tells equal methods apart: the preset, then settings not all runs have."""
    methods = [str(content["method"]) for content in contents]
    named = [
        _with_preset(content) if methods.count(method) > 1 else method
        for content, method in zip(contents, methods, strict=True)
    ]
    return [
        f"{name} {_differing(content, contents)}".strip() if named.count(name) > 1 else name
        for content, name in zip(contents, named, strict=True)
    ]


def unique(labels: Sequence[str], folders: Sequence[str]) -> list[str]:
    """Labels that occur twice get the name of the run's folder."""
    return [
        f"{label} ({folder})" if labels.count(label) > 1 else label
        for label, folder in zip(labels, folders, strict=True)
    ]


def _with_preset(content: Results) -> str:
    """The method with its preset."""
    preset = content["preset"]
    return str(content["method"]) + ("" if preset == "default" else f" {preset}")


def _differing(content: Results, contents: Sequence[Results]) -> str:
    """The settings that not every run has, in few words."""
    others = [other["settings"]["settings"] for other in contents]
    own = {
        key: value
        for key, value in content["settings"]["settings"].items()
        if any(other.get(key) != value for other in others)
    }
    return ", ".join(f"{key.split('.')[-1]}={value}" for key, value in own.items())
