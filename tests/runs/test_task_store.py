"""A store of learned tasks: entries by what decides them, whole or absent."""

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
    store.keep_measured({"set": "a"}, [{"accuracy": 1.0}])
    store.keep_measured({"set": "a"}, [{"accuracy": 1.0}, {"accuracy": 2.0}])
    assert [one["accuracy"] for one in store.measured({"set": "a"})] == [1.0, 2.0]
