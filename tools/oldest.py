"""The oldest versions that pyproject.toml allows, as constraints for pip: `python tools/oldest.py`."""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
BOUND = re.compile(r"([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?>=([0-9.]+)")


def oldest(text: str, extras: tuple[str, ...] = ("mini", "report")) -> list[str]:
    """A line `name==version` for each dependency, and for those of some extras.

    Example:
        >>> oldest('[project]\\ndependencies = ["torch>=2.4"]\\noptional-dependencies = {}', ())
        ['torch==2.4']
    """
    project = tomllib.loads(text)["project"]
    wanted = list(project["dependencies"])
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    return [f"{found[1]}=={found[2]}" for one in wanted if (found := BOUND.match(one))]


if __name__ == "__main__":
    sys.stdout.write("\n".join(oldest(PROJECT.read_text(encoding="utf-8"))) + "\n")
