"""Tests mirror the tree: a module's tests are found by its path."""

from pathlib import Path

import pytest

import dpw

SOURCE = Path(dpw.__file__).parent
TESTS = Path(__file__).parents[1]
APART = ("repository", "helpers")
# About a whole room, so about no single module of it.
WHOLE_ROOM = {Path("methods/test_battery.py"), Path("storage/test_old_formats.py")}
FILES = [
    path
    for path in sorted(path.relative_to(TESTS) for path in TESTS.rglob("test_*.py"))
    if path.parts[0] not in APART and path not in WHOLE_ROOM
]


def mirrored(test: Path) -> Path | None:
    """The module or package that a test file is about: `test_run_presets.py` may belong to `run`."""
    words = test.stem.removeprefix("test_").split("_")
    for length in range(len(words), 0, -1):
        module = SOURCE / test.parent / "_".join(words[:length])
        if module.with_suffix(".py").is_file() or (module / "__init__.py").is_file():
            return module
    return None


@pytest.mark.parametrize("test", FILES, ids=str)
def test_it_stands_where_its_module_stands(test):
    assert mirrored(test), f"tests/{test} is about no module of dpw: move it, or put it into tests/repository"


def test_a_test_of_nothing_would_be_noticed():
    assert mirrored(Path("clip/test_backbone.py")) == SOURCE / "clip" / "backbone"
    assert mirrored(Path("clip/test_backbone_savings.py")) == SOURCE / "clip" / "backbone"
    assert mirrored(Path("clip/test_nothing.py")) is None
    assert mirrored(Path("test_backbone.py")) is None


def test_helpers_hold_no_tests():
    assert (TESTS / "helpers").is_dir()
    assert not list((TESTS / "helpers").rglob("test_*.py"))


def test_what_is_about_a_whole_room_is_there():
    assert [path for path in WHOLE_ROOM if not (TESTS / path).is_file()] == []
