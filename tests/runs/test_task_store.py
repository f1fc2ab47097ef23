"""A store of learned tasks: entries by what decides them, whole or absent."""

import json
from dataclasses import replace

import pytest

from dpw.errors import DamagedFileError, InputError
from dpw.runs.task_store import TaskStore, key_of
from dpw.storage import files
from tests.helpers.toy_learner import fresh, task


def test_a_key_is_decided_by_every_value_and_by_no_order():
    assert key_of({"a": 1, "b": [2]}) == key_of({"b": [2], "a": 1})
    assert key_of({"a": 1}) != key_of({"a": 2})


@pytest.fixture
def method(toy):
    """A learner's method with one task."""
    model = fresh(toy)
    model.learn(task(toy, "signs"))
    return model.method


def test_a_task_comes_back_as_it_was_kept(toy, tmp_path, method):
    store = TaskStore(tmp_path / "store")
    assert store.learned({"seed": 1}) is None
    store.keep({"seed": 1}, method, "a line\n", 2.5)
    store.keep({"seed": 1}, method, "another\n", 9.0)
    kept = store.learned({"seed": 1})
    assert (kept.log, kept.seconds) == ("a line\n", 2.5), "the first is kept"
    other = fresh(toy).method
    kept.add_to(other)
    assert files.tensors_digest(other.task_state(0)) == files.tensors_digest(method.task_state(0))
    assert other.tasks[0] == method.tasks[0]


def test_shared_tensors_must_be_the_same(tmp_path, method):
    store = TaskStore(tmp_path / "store")
    store.keep({}, method, "", 0)
    kept = store.learned({})
    method.down_image = method.down_image + 1
    with pytest.raises(DamagedFileError, match="other shared tensors"):
        kept.add_to(method)


def test_an_entry_under_a_foreign_name_is_refused(tmp_path, method):
    store = TaskStore(tmp_path / "store")
    store.keep({"seed": 1}, method, "", 0)
    here = tmp_path / "store" / "learned"
    (here / key_of({"seed": 1})).rename(here / key_of({"seed": 2}))
    with pytest.raises(InputError, match="seed: was 1, now 2"):
        store.learned({"seed": 2})


def test_measurements_grow_row_by_row(tmp_path):
    store = TaskStore(tmp_path / "store")
    assert store.measured({"set": "a"}) == []
    tests = [{"accuracy": one, "images": 4, "routed": None, "seconds": 0.5} for one in (1.0, 2.0)]
    store.keep_measured({"set": "a"}, tests[:1])
    store.keep_measured({"set": "a"}, tests)
    assert [one["accuracy"] for one in store.measured({"set": "a"})] == [1.0, 2.0]


@pytest.mark.parametrize("tests", [None, [7], [{"accuracy": "x", "images": 4, "routed": None, "seconds": 1}]])
def test_measurements_with_a_right_checksum_and_wrong_values_are_refused(tmp_path, tests):
    store = TaskStore(tmp_path)
    content = {"format": 1, "kind": "dpw-measured", "identity": {}, "tests": tests}
    files.write_json(tmp_path / "measured" / f"{key_of({})}.json", content)
    with pytest.raises(DamagedFileError, match="tests"):
        store.measured({})


@pytest.mark.parametrize(
    ("key", "value"), [("identity", None), ("tasks", []), ("log", 7), ("seconds", "x"), ("shared", "x")]
)
def test_a_kept_task_with_a_right_checksum_and_wrong_values_is_refused(tmp_path, method, key, value):
    store = TaskStore(tmp_path)
    store.keep({}, method, "", 0)
    path = tmp_path / "learned" / key_of({}) / "task.json"
    files.write_json(path, json.loads(path.read_text()) | {key: value})
    with pytest.raises(DamagedFileError, match=key):
        store.learned({})


def test_tensors_that_do_not_fit_are_refused(toy, tmp_path, method):
    store = TaskStore(tmp_path)
    store.keep({}, method, "", 0)
    odd = replace(store.learned({}), tensors={})
    with pytest.raises(DamagedFileError, match="do not fit method"):
        odd.add_to(fresh(toy).method)
