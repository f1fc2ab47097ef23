"""Every method on every family of CLIP, as the table of docs/families.md says."""

import importlib.util
from pathlib import Path

import pytest

from dpw.methods import METHODS
from tests.helpers.families import EVERY
from tests.helpers.family_battery import outcome

TOOL = Path(__file__).parents[2] / "tools" / "family_table.py"
specification = importlib.util.spec_from_file_location("family_table", TOOL)
assert specification is not None
tool = importlib.util.module_from_spec(specification)
specification.loader.exec_module(tool)
TOLD = tool.outcomes(tool.PAGE.read_text(encoding="utf-8"))

# The two that differ most from CLIP; the others share their code with these or with CLIP, and are slow tests.
QUICK = ["siglip", "altclip"]
REST = [family for family in EVERY if family not in QUICK]


def test_the_table_has_every_method_and_every_family():
    assert sorted(TOLD) == sorted(METHODS), "run: python tools/family_table.py"
    assert {tuple(row) for row in TOLD.values()} == {tuple(tool.COLUMNS)}
    assert set(tool.COLUMNS) == set(EVERY)


@pytest.mark.parametrize("name", sorted(METHODS))
@pytest.mark.parametrize("family", QUICK)
def test_what_the_table_says_is_so(family, name):
    assert outcome(family, name) == TOLD[name][family], "run: python tools/family_table.py"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(METHODS))
@pytest.mark.parametrize("family", REST)
def test_what_the_table_says_of_the_other_families_is_so(family, name):
    assert outcome(family, name) == TOLD[name][family], "run: python tools/family_table.py"
