"""A benchmark by its name: orders, protocols, few-shot draws, and what is refused."""

import json
from collections import Counter

import numpy as np
import pytest

from dpw.benchmarks import Benchmark, load_benchmark, registry
from dpw.data.task import Split, Task
from dpw.errors import InputError
from tests.helpers.checks import nonempty


def test_the_protocol_can_be_changed_and_every_task_carries_it(data_root):
    loaded = load_benchmark("mtil", data_root=data_root, seed=1, protocol="zscl")
    assert loaded.protocol == "zscl"
    assert {task.protocol for task in loaded.tasks} == {"zscl"}
    assert all(task.val is None for task in nonempty(loaded.tasks))


def test_few_shot_keeps_k_images_of_each_class(data_root):
    loaded = load_benchmark("mtil-fs", data_root=data_root, seed=1, shots=2)
    assert loaded.shots == 2
    for task in nonempty(loaded.tasks):
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
    assert set(Counter(loaded.tasks[0].val.labels).values()) == {1}  # drawn, because the list has none
    assert len(loaded.tasks[1].train) == 3


@pytest.mark.parametrize(
    ("choice", "words"),
    [({"shots": 2}, "has no list shot_2-seed_1.json"), ({}, "no effect on all images: also give shots")],
)
def test_lists_that_no_task_would_use_are_refused(tmp_path, choice, words):
    (tmp_path / "food101").mkdir()
    (tmp_path / "food101" / "shot_1-seed_1.json").write_text("{}")
    with pytest.raises(InputError, match=words):
        load_benchmark("mtil", data_root=tmp_path, seed=1, shot_lists=tmp_path, **choice)


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


@pytest.mark.real
def test_real_subsets_load(real_root):
    order = ["caltech101", "cifar100", "dtd", "flowers", "mnist", "oxfordpet", "stanfordcars"]
    loaded = load_benchmark("mtil-fs", data_root=real_root, seed=1, shots=4, order=order)
    for task in nonempty(loaded.tasks):
        assert len(task.train) == 4 * len(task.classes)
