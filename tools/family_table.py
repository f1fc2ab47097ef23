"""Write the table of docs/families.md: every method is tried on a tiny model of every family of CLIP."""

import sys
from collections.abc import Mapping
from pathlib import Path

from made_section import parts
from made_section import replace as replace_section

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "families.md"
# The tiny models by the columns of the table; SigLIP 2 is SigLIP with another vocabulary.
COLUMNS = {
    "clip": "CLIP",
    "metaclip_2": "MetaCLIP 2",
    "siglip": "SigLIP",
    "siglip2": "SigLIP 2",
    "chinese_clip": "Chinese-CLIP",
    "altclip": "AltCLIP",
}


def table(found: Mapping[str, Mapping[str, str]]) -> str:
    """A Markdown table of outcomes by method and family."""
    lines = [
        f"| method | {' | '.join(COLUMNS.values())} |",
        f"|---|{'---|' * len(COLUMNS)}",
        *(
            f"| [`{name}`](methods/{name}.md) | {' | '.join(by_family[family] for family in COLUMNS)} |"
            for name, by_family in found.items()
        ),
    ]
    return "\n".join(lines) + "\n"


def outcomes(page: Path) -> dict[str, dict[str, str]]:
    """What a page's table says, by method and family."""
    rows = parts(page, "family_table")[1].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {row[0].split("`")[1]: dict(zip(COLUMNS, row[1:], strict=True)) for row in cells}


def main() -> None:
    """Try all and rewrite the page."""
    sys.path.insert(0, str(ROOT))
    from tests.helpers.family_battery import METHODS, outcome

    found = {name: {family: outcome(family, name) for family in COLUMNS} for name in sorted(METHODS)}
    replace_section(PAGE, "family_table", table(found))


if __name__ == "__main__":
    main()
