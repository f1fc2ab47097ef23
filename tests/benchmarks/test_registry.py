"""The embedded benchmarks: orders, settings, protocols and sizes."""

import json

import pytest

from dpw.benchmarks import get_benchmark, list_benchmarks, load_benchmark

ORDER_1 = (
    "aircraft",
    "caltech101",
    "cifar100",
    "dtd",
    "eurosat",
    "flowers",
    "food",
    "mnist",
    "oxfordpet",
    "stanfordcars",
    "sun397",
)

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


def names(benchmark):
    return [task.name for task in get_benchmark(benchmark).tasks]


def test_orders():
    assert names("mtil") == names("mtil-fs") == names("odcl-cil") == names("odcl-cil-merged") == list(ORDER_1)
    assert names("mtil-order2") == list(ORDER_2)
    assert len(names("mtil-fs-diki")) == 8
    forwards, backwards = (load_benchmark(name).tasks.names for name in ("mini", "mini-order2"))
    assert list(forwards) == list(backwards)[::-1]


@pytest.mark.parametrize(
    ("name", "setting", "protocol", "shots", "merged"),
    [
        ("mtil", "task-incremental", "coop", None, False),
        ("mtil-order2", "task-incremental", "coop", None, False),
        ("mtil-fs", "task-incremental", "coop", 16, False),
        ("odcl-cil", "class-incremental", "coop", None, False),
        ("odcl-cil-merged", "class-incremental", "coop", None, True),
        ("cifar100-cil", "class-incremental", "zscl", None, False),
        ("x-tail", "cross-domain", "coop", 16, False),
        ("x-tail-full", "cross-domain", "coop", None, False),
        ("mini-order2", "task-incremental", "coop", None, False),
        ("mini-cil", "class-incremental", "coop", None, False),
        ("mini-x-tail", "cross-domain", "coop", None, False),
    ],
)
def test_what_each_benchmark_says(name, setting, protocol, shots, merged):
    found = get_benchmark(name)
    assert (found.setting, found.protocol, found.shots) == (setting, protocol, shots)
    assert found.merge_equal_names == merged


def test_descriptions_have_the_official_sizes():
    described = {benchmark.name: benchmark.describe() for benchmark in list_benchmarks()}
    assert json.loads(json.dumps(described)) == described
    assert described["mtil"]["classes"] == 1200
    assert described["mtil"]["tasks"][3] == {
        "name": "dtd",
        "classes": 47,
        "train": 2820,
        "val": 1128,
        "test": 1692,
    }
    assert described["mtil-fs"]["train"] == 16 * 1200
    assert described["cifar100-cil-50"]["tasks"][0]["classes"] == 2


def test_x_tail_has_ten_domains_and_1100_classes_in_two_orders():
    assert names("x-tail") == names("x-tail-full") == [name for name in ORDER_1 if name != "cifar100"]
    assert names("x-tail-order2") == names("x-tail-full-order2")
    assert sorted(names("x-tail-order2")) == sorted(names("x-tail"))
    assert names("x-tail-order2")[:2] == ["stanfordcars", "aircraft"]
    described = get_benchmark("x-tail").describe()
    assert (described["classes"], described["train"]) == (1100, 16 * 1100)
    assert {task["name"]: task["train"] for task in get_benchmark("x-tail-full").describe()["tasks"]}[
        "mnist"
    ] == 60000
