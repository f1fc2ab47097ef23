"""Every method on every family of CLIP, as the table of docs/families.md says."""

import pytest

from dpw.methods import METHODS
from tests.helpers.families import EVERY
from tests.helpers.family_battery import outcome
from tests.helpers.tools import tool

table = tool("family_table")
TOLD = table.outcomes(table.PAGE)

# The two that differ most from CLIP; the others share their code with these or with CLIP, and are slow tests.
QUICK = ["siglip", "altclip"]
REST = [family for family in EVERY if family not in QUICK]


def test_the_table_has_every_method_and_every_family():
    assert sorted(TOLD) == sorted(METHODS), "run: python tools/family_table.py"
    assert {tuple(row) for row in TOLD.values()} == {tuple(table.COLUMNS)}
    assert set(table.COLUMNS) == set(EVERY)


@pytest.mark.parametrize("name", sorted(METHODS))
@pytest.mark.parametrize("family", QUICK)
def test_what_the_table_says_is_so(family, name):
    assert outcome(family, name) == TOLD[name][family], "run: python tools/family_table.py"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(METHODS))
@pytest.mark.parametrize("family", REST)
def test_what_the_table_says_of_the_other_families_is_so(family, name):
    assert outcome(family, name) == TOLD[name][family], "run: python tools/family_table.py"
