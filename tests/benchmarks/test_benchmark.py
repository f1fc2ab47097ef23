"""Loaded benchmarks: lazy, in order, and described."""

import json

import pytest

from dpw.benchmarks import load_benchmark
from dpw.errors import InputError

ORDER_2 = (
    "stanfordcars",
    "food",
    "mnist",
    "oxfordpet",
    "flowers",
    "sun397",
    "aircraft",
    "caltech101",
    "dtd",
    "eurosat",
    "cifar100",
)


def test_all_eleven_tasks_load_lazily_and_in_order(data_root):
    loaded = load_benchmark("mtil-order2", data_root=data_root, seed=1)
    assert list(loaded.task_names) == list(ORDER_2)
    assert loaded.tasks[0] is loaded.tasks[0]
    assert [task.name for task in loaded.tasks] == list(ORDER_2)
    assert [task.name for task in loaded.tasks[1:3]] == ["food", "mnist"]
    assert loaded.tasks[-1].name == "cifar100"


def test_nothing_is_read_before_a_task_is_used(tmp_path):
    loaded = load_benchmark("mtil", data_root=tmp_path, seed=1)
    assert len(loaded.tasks) == 11
    with pytest.raises(InputError, match="fgvc_aircraft is missing"):
        loaded.tasks[0]


def test_a_loaded_benchmark_describes_itself(data_root):
    described = load_benchmark(
        "odcl-cil-merged", data_root=data_root, seed=2, order=["dtd", "mnist"]
    ).describe()
    assert json.loads(json.dumps(described)) == described
    assert described["merge_equal_names"] is True
    assert [task["train"] for task in described["tasks"]] == [15, 40]
