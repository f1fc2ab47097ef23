"""The pages know all methods, and point to files that exist."""

import re

import pytest

from dpw.methods import METHODS
from tests.helpers.tools import ROOT, tool

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_page_that_the_index_names(name):
    page = (ROOT / "docs" / "methods" / f"{name}.md").read_text(encoding="utf-8")
    assert len(page.split()) > 30
    assert ("reconstruction" in METHODS[name].status) <= ("reconstruction" in page)
    assert f"({name}.md)" in (ROOT / "docs" / "methods" / "index.md").read_text(encoding="utf-8")


def test_what_is_said_about_methods_is_what_they_say():
    made = tool("method_pages").pages()
    stale = [path for path, text in made.items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "run: python tools/method_pages.py"


def test_there_are_links():
    assert all(
        "](" in page.read_text(encoding="utf-8") for page in (ROOT / "README.md", ROOT / "docs" / "index.md")
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    local = [link for link in links if "://" not in link and not link.startswith("mailto:")]
    assert [link for link in local if not (page.parent / link).exists()] == []
