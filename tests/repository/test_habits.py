"""What contributors look for is there, can be read by machines, and agrees with the package."""

import re
import sys
import tomllib
from types import SimpleNamespace

import pytest
import yaml

import dpw
from tests.helpers.tools import ROOT, tool

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FILES = [
    ROOT / "CITATION.cff",
    ROOT / ".pre-commit-config.yaml",
    *sorted((ROOT / ".github").rglob("*.yml")),
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_is_yaml(path):
    assert yaml.safe_load(path.read_text(encoding="utf-8"))


def test_the_citation_names_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == dpw.__version__
    assert citation["license"] == PROJECT["license"]


def test_pre_commit_checks_with_the_linter_of_the_suite():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    (ruff,) = [repository["rev"] for repository in hooks if "ruff" in repository["repo"]]
    assert f"ruff=={ruff.removeprefix('v')}\n" in (ROOT / "constraints.txt").read_text(encoding="utf-8")


def test_the_hosted_checks_run_every_python_that_is_promised():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    tested = set(workflow["jobs"]["tests"]["strategy"]["matrix"]["python"])
    promised = {line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if "Python :: 3." in line}
    assert tested == promised


def test_the_oldest_versions_are_those_of_the_project():
    found = tool("oldest").oldest((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "torch==2.4" in found
    assert len(found) == len(PROJECT["dependencies"]) + 2


@pytest.fixture
def description(monkeypatch):
    """The tool that hatchling asks, where hatchling need not be installed."""
    place = "hatchling.metadata.plugin.interface"
    for name in ("hatchling", "hatchling.metadata", "hatchling.metadata.plugin", place):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(MetadataHookInterface=object))
    return tool("long_description")


def test_the_wheel_describes_itself_without_links_to_files(description):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    adapted = description.elsewhere(readme, None)
    assert re.findall(r"\]\((?!https?:)[^)]*\)", readme)
    assert not re.findall(r"\]\((?!https?:)[^)]*\)", adapted)
    assert "Install and first steps · teach your own CLIP" in adapted
    named = description.elsewhere(readme, "https://example.org/dpw/")
    assert "(https://example.org/dpw/blob/main/docs/start.md)" in named
    assert "![Accuracy on every task after each learned task](https://example.org/dpw/raw/main/docs/" in named


def test_the_readme_states_the_size_of_the_wheel():
    check = tool("release_check").check_stated
    check(6_040_000, "dpw itself is 6 MB")
    for size, text in ((7_100_000, "dpw itself is 6 MB"), (6_000_000, "dpw is small")):
        with pytest.raises(SystemExit, match=f"dpw itself is {size // 1_000_000} MB"):
            check(size, text)
    assert re.search(r"dpw itself is \d+ MB", (ROOT / "README.md").read_text(encoding="utf-8"))


def test_the_image_gets_everything_that_building_asks_for():
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    hook = tools["hatch"]["metadata"]["hooks"]["custom"]["path"]
    assert f"COPY {hook} " in (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert f"!{hook}\n" in (ROOT / ".dockerignore").read_text(encoding="utf-8")
