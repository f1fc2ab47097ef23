"""The embedded benchmarks: orders, settings, protocols, sizes, steps and few-shot draws."""

import json
import random
from collections import Counter

import numpy as np
import pytest

from dpw.benchmarks import Benchmark, get_benchmark, list_benchmarks, load_benchmark, registry
from dpw.benchmarks.sources import ZSCL_CIFAR100_ORDER
from dpw.data.task import Split, Task
from dpw.errors import InputError

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


@pytest.mark.parametrize(
    ("name", "setting", "protocol", "shots", "merged"),
    [
        ("mtil", "task-incremental", "coop", None, False),
        ("mtil-order2", "task-incremental", "coop", None, False),
        ("mtil-fs", "task-incremental", "coop", 16, False),
        ("odcl-cil", "class-incremental", "coop", None, False),
        ("odcl-cil-merged", "class-incremental", "coop", None, True),
        ("cifar100-cil", "class-incremental", "zscl", None, False),
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


def test_the_protocol_can_be_changed_and_every_task_carries_it(data_root):
    loaded = load_benchmark("mtil", data_root=data_root, seed=1, protocol="zscl")
    assert loaded.protocol == "zscl"
    assert {task.protocol for task in loaded.tasks} == {"zscl"}
    assert all(task.val is None for task in loaded.tasks)


def test_few_shot_keeps_k_images_of_each_class(data_root):
    loaded = load_benchmark("mtil-fs", data_root=data_root, seed=1, shots=2)
    assert loaded.shots == 2
    for task in loaded.tasks:
        assert set(Counter(task.train.labels).values()) == {2}
        assert set(Counter(task.val.labels).values()) <= {1, 2}


def test_few_shot_draws_are_the_same_in_every_order(data_root):
    first = load_benchmark("mtil", data_root=data_root, seed=5, shots=1)
    second = load_benchmark("mtil-order2", data_root=data_root, seed=5, shots=1)
    places = [[t.train.where(0) for t in b.tasks if t.name == "food"] for b in (first, second)]
    assert places[0] == places[1]


def test_published_lists_are_used_where_they_exist(data_root, tmp_path):
    (tmp_path / "food101").mkdir()
    entry = {"impath": "./data/food-101/images/waffles/21.jpg", "label": 2, "classname": "waffles"}
    (tmp_path / "food101" / "shot_1-seed_1.json").write_text(json.dumps({"train": {"data": [entry]}}))
    loaded = load_benchmark(
        "mtil", data_root=data_root, seed=1, shots=1, order=["food", "dtd"], shot_lists=tmp_path
    )
    assert loaded.tasks[0].train.where(0).endswith("food-101/images/waffles/21.jpg")
    assert len(loaded.tasks[1].train) == 3


@pytest.mark.parametrize("steps", [10, 20, 50])
def test_cifar100_in_steps_with_the_published_order(data_root, steps):
    name = "cifar100-cil" if steps == 10 else f"cifar100-cil-{steps}"
    loaded = load_benchmark(name, data_root=data_root, seed=1)
    whole = load_benchmark("mtil", data_root=data_root, seed=1, protocol="zscl", order=["cifar100"]).tasks[0]
    assert len(loaded.tasks) == steps
    classes = [name for task in loaded.tasks for name in task.classes]
    assert classes == [whole.classes[label] for label in ZSCL_CIFAR100_ORDER]
    assert sorted(ZSCL_CIFAR100_ORDER) == list(range(100))
    assert loaded.tasks[0].prompts()[0] == "a bad photo of a class 87."
    for task in loaded.tasks[:3]:
        assert set(task.train.labels) == set(range(100 // steps))
        assert len(task.train) == 5 * 100 // steps


def test_a_step_keeps_the_images_of_its_classes(data_root):
    loaded = load_benchmark("cifar100-cil", data_root=data_root, seed=1)
    whole = load_benchmark("mtil", data_root=data_root, seed=1, protocol="zscl", order=["cifar100"]).tasks[0]
    step = loaded.tasks[2]
    original = {whole.train.where(place): whole.train.labels[place] for place in range(len(whole.train))}
    for place in range(len(step.train)):
        assert whole.classes[original[step.train.where(place)]] == step.classes[step.train.labels[place]]


def test_under_coop_the_class_order_is_shuffled_by_the_seed(data_root):
    loaded = load_benchmark("cifar100-cil", data_root=data_root, seed=3, protocol="coop")
    order = list(range(100))
    random.Random(3).shuffle(order)
    assert loaded.tasks[0].classes[0] == f"class {order[0]:02d}"
    assert loaded.tasks[0].prompts()[0] == f"a photo of a class {order[0]:02d}."
    assert loaded.tasks[0].val is not None


def test_an_order_may_leave_tasks_out(data_root):
    loaded = load_benchmark("mtil", data_root=data_root, seed=1, order=["mnist", "dtd"])
    assert [task.name for task in loaded.tasks] == ["mnist", "dtd"]


@pytest.mark.parametrize(
    ("order", "words"), [(["moon"], "names 'moon'"), (["dtd", "dtd"], "none twice"), ([], "one")]
)
def test_bad_orders_are_refused(order, words):
    with pytest.raises(InputError, match=words):
        load_benchmark("mtil", seed=1, order=order)


def test_an_unknown_benchmark_is_answered_with_the_known_ones():
    with pytest.raises(InputError, match=r"'mtli' is unknown; give a \.yaml file or one of mtil, "):
        load_benchmark("mtli", seed=1)


def test_a_public_benchmark_needs_a_data_root():
    with pytest.raises(InputError, match="give data_root or set DPW_DATA"):
        load_benchmark("mtil", seed=1).tasks[0]


def test_tasks_may_come_from_a_function(monkeypatch):
    def build(seed):
        split = Split.from_arrays(np.full((6, 4, 4), seed, np.uint8), [0, 1] * 3, "drawn/train")
        return [Task(name, ("a", "b"), ("a {}",), split, test=split) for name in ("one", "two")]

    drawn = Benchmark("drawn", "for this test", "task-incremental", "coop", build=build)
    monkeypatch.setattr(registry, "_ENTRIES", (drawn,))
    loaded = load_benchmark("drawn", seed=7, shots=1, protocol="zscl", order=["two", "one"])
    assert [task.name for task in loaded.tasks] == ["two", "one"]
    assert loaded.tasks[0].train[0].image.getpixel((0, 0)) == (7, 7, 7)
    assert (len(loaded.tasks[0].train), loaded.tasks[0].protocol) == (2, "zscl")


def test_a_loaded_benchmark_describes_itself(data_root):
    described = load_benchmark(
        "odcl-cil-merged", data_root=data_root, seed=2, order=["dtd", "mnist"]
    ).describe()
    assert json.loads(json.dumps(described)) == described
    assert described["merge_equal_names"] is True
    assert [task["train"] for task in described["tasks"]] == [15, 40]


def test_real_subsets_load(real_root):
    order = ["caltech101", "cifar100", "dtd", "flowers", "mnist", "oxfordpet", "stanfordcars"]
    loaded = load_benchmark("mtil-fs", data_root=real_root, seed=1, shots=4, order=order)
    for task in loaded.tasks:
        assert len(task.train) == 4 * len(task.classes)
