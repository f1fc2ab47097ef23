"""A part of a page that a tool makes, between two comments that name it; the words around are by hand."""

import sys
from pathlib import Path


def marks(tool: str) -> tuple[str, str]:
    """The two lines between which a page holds what `tools/TOOL.py` made."""
    return f"<!-- made by tools/{tool}.py -->", f"<!-- end of what tools/{tool}.py made -->"


def parts(page: Path, tool: str) -> tuple[str, str, str]:
    """A page before, in and after the part that a tool makes; a page without such a part ends the program."""
    begin, end = marks(tool)
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    before, found, rest = text.partition(begin)
    made, closed, after = rest.partition(end)
    if not found or not closed:
        sys.exit(f"{page} has no place for what tools/{tool}.py makes: put the lines {begin} and {end} there")
    return before, made.strip("\n"), after


def replace(page: Path, tool: str, content: str) -> None:
    """Put new content in the place of what a tool made before; everything else stays."""
    before, _, after = parts(page, tool)
    begin, end = marks(tool)
    page.write_text(f"{before}{begin}\n\n{content.strip()}\n\n{end}{after}", encoding="utf-8")
