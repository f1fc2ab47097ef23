"""What is said about methods without importing them is what they say themselves."""

import pytest

from dpw.errors import InputError
from dpw.methods import METHODS
from dpw.methods.catalog import catalog, known_files, own_files, refuse_unknown, stored
from dpw.methods.description import describe


def test_the_stored_catalogue_is_up_to_date():
    """One file with names, presets and every setting, and one test that holds it to the methods."""
    own = {name for name, kind in METHODS.items() if kind.__module__.startswith("dpw.")}
    assert stored() == {name: describe(name) for name in own}, "run tools/method_pages.py"
    assert known_files() == own_files(), "run tools/method_pages.py"


def test_a_method_that_the_file_does_not_know_is_asked_itself(monkeypatch):
    monkeypatch.setattr("dpw.methods.catalog.stored", dict)
    assert catalog()["dpw"] == describe("dpw")


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (("nothing",), "no method is called 'nothing'"),
        (("dpw", "nothing"), "has no preset 'nothing'"),
        (("dpw", "official+nothing"), "has no preset 'nothing'"),
        (("dpw", "default", {"training.epoch": 1}), "did you mean 'training.epochs'"),
        (("dpw", "default", {"training.epochs": "many"}), "training.epochs = 'many'"),
    ],
)
def test_what_does_not_exist_is_refused(asked, why):
    with pytest.raises(InputError, match=why.replace("+", r"\+")):
        refuse_unknown(*asked)


def test_sections_and_tables_of_settings_are_known():
    refuse_unknown("dpw", "official", {"training.task_epochs.birds": 3, "prefix_length": 4, "training": {}})
