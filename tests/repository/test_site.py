"""The documentation site: built without a warning, complete, at home, and readable on a phone."""

import os
import re
import subprocess
import sys

import pytest

from tests.helpers.tools import ROOT, tool

LOOKED_AT = ("index", "method", "settings", "results", "api/learner", "notebooks/look-inside")

for package in ("mkdocs", "material", "mkdocstrings", "latex2mathml"):
    pytest.importorskip(package)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; a warning, such as a link that leads nowhere, ends the build."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr.strip(), done.stderr
    return folder


def test_every_page_is_there_and_loads_nothing_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 60
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img|iframe)[^>]* src="([^"]+)|<link[^>]* href="([^"]+)', text)
        assert not [one for pair in loaded for one in pair if one.startswith(("http:", "https:", "//"))], page


def test_formulas_are_drawn_and_notebooks_show_their_outputs(site):
    method = (site / "method.html").read_text(encoding="utf-8")
    assert method.count("<math") > 10
    assert "arithmatex" not in method
    inside = (site / "notebooks" / "look-inside.html").read_text(encoding="utf-8")
    assert "data:image/jpeg;base64," in inside
    assert "confidence" in inside


def test_the_search_knows_every_setting(site):
    found = (site / "search" / "search_index.json").read_text(encoding="utf-8")
    assert all(name in found for name in ("prefix_length", "ContinualCLIP", "dpw learn"))


def test_in_a_browser(site):
    pytest.importorskip("playwright")
    looking = tool("look_at_site")
    if looking.find_browser() is None:
        pytest.skip("no browser is installed")
    with looking.browser() as started:
        assert looking.look(site, [site / f"{name}.html" for name in LOOKED_AT], started) == []
        leaky = site / "leaky.html"
        wide = "<article><table style='width:2000px'><tr><td>wide</td></tr></table><h3>Deep</h3></article>"
        leaky.write_text(f"<img src='http://example.invalid/x.png'>{wide}", encoding="utf-8")
        said = " ".join(looking.look(site, [leaky], started))
        assert "asks for http://example.invalid/x.png" in said
        assert "leaky.html (desk): cut off: table wide" in said
        assert "leaky.html (paper): cut off: table wide" in said
        assert "the heading Deep is of level 3 below one of level 0" in said


def test_the_search_finds_pages_without_a_server(site):
    pytest.importorskip("playwright")
    looking = tool("look_at_site")
    if looking.find_browser() is None:
        pytest.skip("no browser is installed")
    with looking.browser() as started:
        view = started.new_page()
        view.goto((site / "index.html").as_uri())
        view.fill(".md-search__input", "prefix_length")
        view.wait_for_selector(".md-search-result__item a", timeout=60_000)
        assert "settings.html" in " ".join(
            one.get_attribute("href") for one in view.query_selector_all(".md-search-result__link")
        )


def test_symbols_in_sentences_are_formulas_but_not_in_code():
    hooks = tool("site_hooks")
    drawn = hooks.on_page_content(
        "<p>Where W^G starts, <code>W^G</code>, of heads h' <a href='X_Y'>by s_cls</a></p>"
    )
    assert drawn.count("<math") == 3
    assert "<code>W^G</code>" in drawn
    assert "href='X_Y'" in drawn


def test_docstrings_are_adapted():
    adapted = tool("site_docstrings").adapted
    together = "Args:\n    low, high: bounds,\n        both.\n\nExample:\n    >>> 1"
    apart = "Args:\n    low: bounds,\n        both.\n    high: bounds,\n        both.\n\nExamples:\n    >>> 1"
    assert adapted(together) == apart


def test_equations_of_docstrings_are_formulas():
    docstrings = tool("site_docstrings")
    source = (ROOT / "src" / "dpw" / "functional.py").read_text(encoding="utf-8")
    assert [written for written in docstrings.FORMULAS if written not in source] == []
    assert docstrings.adapted("RePA, S = X W^G + B^G (Eq. affine)") == "RePA, $S = X W^G + B^G$ (Eq. affine)"


def test_what_a_cell_prints_piece_by_piece_is_shown_as_one():
    hooks = tool("site_hooks")
    printed = [{"output_type": "stream", "name": "stdout", "text": [f"{word}\n"]} for word in ("one", "two")]
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {"cell_type": "code", "source": ["1"], "outputs": [*printed, {"data": {"text/plain": ["'three'"]}}]},
    ]
    page = hooks.notebook_page({"cells": cells}, "x.ipynb")
    assert "one\ntwo\n```" in page
    assert page.count("```text") == 2
