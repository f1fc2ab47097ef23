"""The `mini` benchmark: drawn domains and real digits, the same for a seed, too varied to match pixels."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dpw.benchmarks.mini import DOMAINS, IMAGES_PER_CLASS, DrawnImages, tasks
from dpw.benchmarks.mini.canvas import SIDE
from dpw.data.task import Split, Task
from tests.helpers.checks import nonempty

pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def mini() -> list[Task]:
    return tasks(seed=0)


def pixels(split: Split) -> np.ndarray:
    return np.stack([np.asarray(sample.image) for sample in split])


def test_there_are_eight_domains_with_more_than_sixty_classes(mini):
    assert [task.name for task in mini] == [
        "materials",
        "flags",
        "portraits",
        "signs",
        "aerial",
        "digits",
        "chalk",
        "neon",
    ]
    assert sum(len(task.classes) for task in mini) == 88


def test_every_class_has_the_same_number_of_images(mini):
    for task in nonempty(mini):
        for name, split in nonempty(task.splits().items()):
            counts = np.bincount(split.labels, minlength=len(task.classes))
            assert set(counts) == {IMAGES_PER_CLASS[name]}, (task.name, name)


def test_prompts_are_plain_english(mini):
    prompts = {task.name: task.prompts()[0] for task in mini}
    assert prompts["flags"] == "a photo of the flag of France."
    assert prompts["portraits"] == "a photo of a happy face."
    assert prompts["digits"] == "a photo of the number 0."


def test_threads_draw_one_after_another_and_every_picture_once():
    """Drawing is Python from end to end: two threads at it took twice the time of one."""
    at_once, drawn = [], []

    def draw(name, rng):
        at_once.append(1)
        drawn.append(len(at_once))
        time.sleep(0.001)
        at_once.pop()
        return np.zeros((SIDE, SIDE, 3), dtype=np.uint8)

    images = DrawnImages(DOMAINS[0], "val", seed=0)
    images.domain = images.domain._replace(draw=draw)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(images.pixels, [*range(10), *range(10)]))
    assert drawn == [1] * 10


def test_images_are_small_and_in_colour(mini):
    for task in nonempty(mini):
        image = task.train[0].image
        assert isinstance(image, Image.Image)
        assert (image.size, image.mode) == ((SIDE, SIDE), "RGB")


def test_nothing_is_drawn_before_it_is_looked_at():
    split = tasks(seed=0)[0].train
    assert split._source._drawn == {}
    first = split[3].image
    assert set(split._source._drawn) == {3}
    assert split[3].image.tobytes() == first.tobytes()


@settings(max_examples=12, deadline=None)
@given(domain=st.sampled_from(DOMAINS), seed=st.integers(0, 2**31), data=st.data())
def test_the_same_seed_draws_the_same_picture_and_another_seed_another_one(domain, seed, data):
    name = data.draw(st.sampled_from(domain.classes))
    first, again = (domain.draw(name, np.random.default_rng(seed)) for _ in range(2))
    other = domain.draw(name, np.random.default_rng(seed + 1))
    assert first.dtype == np.uint8
    assert (first == again).all()
    assert (first != other).any()


def test_no_picture_is_in_two_splits(mini):
    for task in nonempty(mini):
        keys = {name: {sample.image.tobytes() for sample in split} for name, split in task.splits().items()}
        for name, split in nonempty(task.splits().items()):
            assert len(keys[name]) == len(split), f"{task.name} repeats a picture in {name}"
        assert not keys["train"] & keys["val"]
        assert not keys["train"] & keys["test"]
        assert not keys["val"] & keys["test"]


def test_positions_are_named_for_error_messages(mini):
    assert mini[1].train.where(17) == "flags/train[17]"
    assert mini[5].test.where(3) == "digits/test[3]"


def test_the_digits_are_the_real_ones_of_scikit_learn():
    from sklearn.datasets import load_digits

    from dpw.benchmarks.mini.digits import handwriting

    images, labels = handwriting()
    assert images.shape == (1797, 8, 8)
    assert (labels == load_digits().target).all()
    np.testing.assert_allclose(images / 255 * 16, load_digits().images, atol=0.07)


def test_matching_pixels_does_poorly(mini):
    """What matching pixels with the nearest training picture solves would need no learning."""
    accuracy = {}
    for task in nonempty(mini):
        known, asked = (pixels(s).reshape(len(s), -1).astype(np.float32) for s in (task.train, task.test))
        far = (known**2).sum(1)[None] - 2 * asked @ known.T
        guesses = np.array(task.train.labels)[far.argmin(1)]
        accuracy[task.name] = float((guesses == np.array(task.test.labels)).mean())
    assert max(accuracy.values()) < 0.7, accuracy
    assert sum(accuracy.values()) / len(accuracy) < 0.4, accuracy


def test_a_key_names_one_picture_without_drawing_it(monkeypatch):
    first, again, other = tasks(0)[0].train, tasks(0)[0].train, tasks(1)[0].train
    monkeypatch.setattr("dpw.benchmarks.mini.DrawnImages.pixels", lambda *_: pytest.fail("it was drawn"))
    keys = [first.key(index) for index in range(len(first))]
    assert len(set(keys)) == len(keys)
    assert keys == [again.key(index) for index in range(len(again))]
    assert not set(keys) & {other.key(index) for index in range(len(other))}


def test_a_change_of_the_drawing_code_changes_every_key(monkeypatch):
    split = tasks(0)[0].train
    before = split.key(0)
    monkeypatch.setattr("dpw.benchmarks.mini.identity.drawing_version", lambda: "another")
    assert split.key(0) != before
