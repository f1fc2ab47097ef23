"""Write docs/methods/NAME.md, the list in docs/index.md and the catalogue from the methods themselves.

    python tools/method_pages.py

A method's class docstring is its page; presets and settings are taken from what it registered. A test holds
the pages to this.
"""

import inspect
import json
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from dpw.methods import METHODS, PRESETS
from dpw.methods.catalog import FILE, registered

DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- methods: made by tools/method_pages.py -->", "<!-- end of methods -->"


def page(name: str) -> str:
    """The page of one method."""
    kind = METHODS[name]
    parts = [
        f"# {name}",
        f"*{kind.summary}*",
        f"Status: {kind.status}.",
        inspect.cleandoc(kind.__doc__ or ""),
    ]
    presets = [preset for preset in PRESETS[name] if preset != "default"]
    if presets:
        parts.append("Presets: " + ", ".join(f"`{preset}`" for preset in presets) + ".")
    parts += ["## Settings", *settings_table(kind.config_class)]
    return "\n\n".join(parts) + "\n"


def settings_table(kind: type[BaseModel]) -> list[str]:
    """All settings with their defaults, those of training under their dotted names."""
    rows = [f"| `{key}` | `{value}` |" for key, value in flat(kind().model_dump())]
    return ["\n".join(["| setting | default |", "|---|---|", *rows])]


def flat(values: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Settings by dotted name; a mapping by task is one setting."""
    found: list[tuple[str, Any]] = []
    for key, value in values.items():
        if key == "training":
            found += flat(value, "training.")
        else:
            found.append((prefix + key, value))
    return found


def index() -> str:
    """The index page with the list of all methods."""
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    links = " · ".join(f"[{name}](methods/{name}.md)" for name in sorted(METHODS))
    head, rest = text.split(BEGIN, 1)
    return f"{head}{BEGIN}\n- **All methods**: {links}\n{END}{rest.split(END, 1)[1]}"


def catalog() -> str:
    """What `dpw methods` reads without importing a method."""
    entries = {name: entry._asdict() for name, entry in registered().items()}
    return json.dumps(entries, indent=1) + "\n"


def pages() -> dict[Path, str]:
    """Every file with what it should hold."""
    found = {DOCS / "methods" / f"{name}.md": page(name) for name in METHODS}
    return {**found, DOCS / "index.md": index(), FILE: catalog()}


def main() -> int:
    """Write all pages."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
