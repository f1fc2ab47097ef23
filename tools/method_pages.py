"""Write what is said about the methods from the methods themselves: pages, settings, and `dpw methods`.

    python tools/method_pages.py

A method's class docstring is its page in docs/methods/; presets and settings are taken from what it
registered, and the meaning of a setting from the sentence below its field. docs/settings.md holds what all
methods share; src/dpw/methods/catalog.json is what `dpw methods` shows. A test holds the files to this.
"""

import inspect
import json
import sys
from pathlib import Path

from dpw.cli.methods import shown
from dpw.methods import METHODS
from dpw.methods.catalog import FILE, Setting, own_files
from dpw.methods.config import MethodConfig
from dpw.methods.description import describe, settings_of

DOCS = Path(__file__).parents[1] / "docs"
SHARED = [one.name for one in settings_of(MethodConfig)]
SETTINGS = """# Settings

Every method has typed settings. A wrong or unknown one is refused with a sentence before anything runs.

- **On the command line**: `--set training.epochs=3 --set gate=0.8` with `dpw run` and `dpw learn`; in YAML.
- **In Python**: `settings={"training.epochs": 3, "gate": 0.8}` of `ContinualCLIP.from_pretrained` or
  `run_benchmark`.
- **Presets** are named sets of settings: `--preset official`, several as `official+ablation/sigmoid`.
- `dpw methods NAME` shows all settings of one method in the terminal.

The defaults are the published ones, for CLIP ViT-B/16; the embedded CLIP `mini` brings its own where they do
not suit it, and `dpw learn` finds learning rate and length [on the images](few-images.md). This page is made
from the settings' classes by `tools/method_pages.py`.

## Of all methods

Defaults of `training` differ from method to method; here those of `dpw`.

"""


def page(name: str) -> str:
    """The page of one method."""
    entry = describe(name)
    parts = [
        f"# {name}",
        f"*{entry.summary}*",
        f"Status: {entry.status}.",
        inspect.cleandoc(METHODS[name].__doc__ or ""),
    ]
    presets = [preset for preset in entry.presets if preset != "default"]
    if presets:
        parts.append("Presets: " + ", ".join(f"`{preset}`" for preset in presets) + ".")
    parts += ["## Settings", settings_table(entry.settings)]
    return "\n\n".join(parts) + "\n"


def settings_table(settings: list[Setting]) -> str:
    """Settings with default, possible values and meaning."""
    rows = [f"| `{one.name}` | `{shown(one.default)}` | {one.values} | {one.meaning} |" for one in settings]
    return "\n".join(["| setting | default | values | meaning |", "|---|---|---|---|", *rows])


def settings_page() -> str:
    """All settings: those of every method once, then each method's own."""
    common = [one for one in describe("dpw").settings if one.name in SHARED]
    parts = [SETTINGS + settings_table(common)]
    for name in sorted(METHODS):
        own = [one for one in describe(name).settings if one.name not in SHARED]
        if own:
            parts.append(f"## {name}\n\n[What it does](methods/{name}.md)\n\n{settings_table(own)}")
    return "\n\n".join(parts) + "\n"


def index() -> str:
    """The list of all methods."""
    rows = [f"| [`{name}`]({name}.md) | {METHODS[name].summary} |" for name in sorted(METHODS)]
    head = (
        "# All methods\n\nOne page for each, with its presets and settings. `dpw methods` lists them too.\n"
    )
    return "\n".join([head, "| method | what it is |", "|---|---|", *rows]) + "\n"


def catalog() -> str:
    """What can be said of all methods without importing one, a setting a line; and the files it is from."""
    entries = []
    for name in sorted(METHODS):
        values = describe(name).as_json()
        settings = ",\n".join(f"    {json.dumps(one)}" for one in values.pop("settings"))
        words = json.dumps(values)[:-1]
        entries.append(f'{json.dumps(name)}: {words},\n  "settings": [\n{settings}\n  ]}}')
    files = ",\n".join(f"  {json.dumps(name)}" for name in own_files())
    methods = ",\n".join(entries)
    return f'{{\n"files": [\n{files}\n],\n"methods": {{\n{methods}\n}}\n}}\n'


def pages() -> dict[Path, str]:
    """Every file with what it should hold."""
    found = {DOCS / "methods" / f"{name}.md": page(name) for name in METHODS}
    more = {"methods/index.md": index(), "settings.md": settings_page()}
    return {
        **found,
        **{DOCS / name: text for name, text in more.items()},
        FILE: catalog(),
    }


def main() -> int:
    """Write all pages."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
