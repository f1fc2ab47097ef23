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


def measured():
    """The rows of docs/results.md by method."""
    lines = (ROOT / "docs" / "results.md").read_text(encoding="utf-8").splitlines()
    header = next(line for line in lines if line.startswith("| method | ")).strip("| ").split(" | ")
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return {row[0]: dict(zip(header, row, strict=True)) for row in rows if len(row) == len(header)}


def test_the_readme_and_the_home_page_quote_the_results():
    found = measured()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for method, shown in {"dpw-ridge": "dpw-ridge (ours, what `dpw learn` uses)"}.items() | {
        (name, name) for name in ("zero-shot", "finetune", "dpw")
    }:
        row = found[method]
        numbers = " | ".join(row[name] for name in ("Transfer", "Avg", "Last", "forgetting"))
        assert f"| {shown} | {numbers} |" in readme
    home = " ".join((ROOT / "docs" / "index.md").read_text(encoding="utf-8").split())
    lost = {name: found[name]["forgetting"].split()[0] for name in ("finetune", "dpw", "dpw-ridge")}
    last = {name: found[name]["Last"].split()[0] for name in lost}
    assert f"has lost {lost['finetune']} points of what it knew after eight tasks, DPW {lost['dpw']}" in home
    assert f"{lost['dpw-ridge']}, at {last['dpw-ridge']} % instead of {last['finetune']} %" in home
