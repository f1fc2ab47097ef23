"""The plan of the house holds: rooms import only from rooms below, and the drawn map shows it."""

from pathlib import Path

import dpw
from dpw.methods import METHODS, Method
from tests.helpers.tools import tool

rooms = tool("rooms")


def test_no_door_leads_upwards():
    found = rooms.doors()
    assert len(found) > 30
    assert rooms.upward(found) == []


def test_every_room_is_on_the_map():
    package = Path(dpw.__file__).parent
    there = {
        path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert there - {"__init__", "__main__", "__pycache__"} == set(rooms.SAYS)


def test_the_picture_is_up_to_date():
    assert rooms.PICTURE.read_text(encoding="utf-8") == rooms.picture(rooms.doors()), "run tools/rooms.py"


def test_methods_inherit_at_most_three_deep():
    for name, kind in METHODS.items():
        depth = [base for base in kind.__mro__ if issubclass(base, Method)]
        assert len(depth) <= 3, name


def test_the_way_back_is_written_once():
    for name in ("abandon", "load_task", "task_state"):
        assert all(getattr(kind, name) is getattr(Method, name) for kind in METHODS.values()), name
