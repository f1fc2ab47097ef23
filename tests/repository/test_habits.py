"""What contributors look for is there, can be read by machines, and agrees with the package."""

import tomllib

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
