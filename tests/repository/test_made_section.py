"""What a tool makes takes its place in a page, and words written by hand around it stay."""

import pytest

from tests.helpers.tools import ROOT, tool

section = tool("made_section")


@pytest.fixture
def page(tmp_path):
    begin, end = section.marks("some_tool")
    path = tmp_path / "page.md"
    path.write_text(f"# Mine\n\n{begin}\nold\n{end}\n\nWhy so.\n")
    return path


def test_what_was_made_before_is_replaced(page):
    section.replace(page, "some_tool", "| new |\n")
    section.replace(page, "some_tool", "| newer |\n")
    begin, end = section.marks("some_tool")
    assert page.read_text() == f"# Mine\n\n{begin}\n\n| newer |\n\n{end}\n\nWhy so.\n"
    assert section.parts(page, "some_tool")[1] == "| newer |"


@pytest.mark.parametrize("text", [None, "# Mine\n", "# Mine\n<!-- made by tools/some_tool.py -->\n"])
def test_a_page_without_a_place_is_refused_and_kept(tmp_path, text):
    page = tmp_path / "page.md"
    if text is not None:
        page.write_text(text)
    with pytest.raises(SystemExit, match=r"has no place for what tools/some_tool.py makes: put the lines"):
        section.replace(page, "some_tool", "new")
    assert (page.read_text() if page.exists() else None) == text


@pytest.mark.parametrize("name", ["table", "ablations", "family_table"])
def test_the_pages_of_the_repository_have_their_places(name):
    assert section.parts(tool(name).PAGE, name)[1]
    assert tool(name).PAGE.parent == ROOT / "docs"
