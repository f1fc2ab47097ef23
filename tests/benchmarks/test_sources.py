"""Tasks of the embedded benchmarks: CIFAR-100 in steps, and X-TAIL's way to name classes."""

import random

import pytest

from dpw.benchmarks import load_benchmark
from dpw.benchmarks.sources import ZSCL_CIFAR100_ORDER
from tests.helpers.checks import nonempty


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
    for task in nonempty(loaded.tasks[:3]):
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


def test_x_tail_has_one_template_and_names_of_its_own(data_root):
    loaded = load_benchmark("x-tail-full", data_root=data_root, seed=1)
    tasks = {task.name: task for task in nonempty(loaded.tasks)}
    assert {task.templates for task in tasks.values()} == {("a photo of a {}.",)}
    assert tasks["mnist"].prompts()[0] == 'a photo of a number: "0 - zero".'
    assert all(prompt.endswith(" satellite location.") for prompt in tasks["eurosat"].prompts())
    plain = load_benchmark("mtil", data_root=data_root, seed=1, order=["aircraft"]).tasks[0]
    assert tasks["aircraft"].classes == plain.classes


def test_x_tail_uses_no_validation_images_and_all_of_mnist(data_root):
    loaded = load_benchmark("x-tail-full", data_root=data_root, seed=1)
    assert [task.val for task in loaded.tasks] == [None] * 10
    whole = load_benchmark("mtil", data_root=data_root, seed=1, protocol="zscl", order=["mnist"]).tasks[0]
    mnist = next(task for task in loaded.tasks if task.name == "mnist")
    assert len(mnist.train) == len(whole.train)
    assert mnist.protocol == "coop"


def test_x_tail_draws_sixteen_images_of_every_class(data_root):
    task = load_benchmark("x-tail", data_root=data_root, seed=1).tasks[2]
    assert len(task.train) == 16 * len(task.classes)
