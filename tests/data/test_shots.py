"""Few-shot draws depend on seed, dataset and split alone; published lists are followed to the letter."""

import json
from collections import Counter

import numpy as np
import pytest

from dpw.data.public import load_public
from dpw.data.shots import few_shot_task, listed_task
from dpw.data.task import Split, Task
from dpw.errors import InputError


def toy(val=True):
    images = np.arange(60 * 4, dtype=np.uint8).reshape(60, 2, 2)
    split = Split.from_arrays(images, [place % 3 for place in range(60)], "toy")
    return Task("toy", ("a", "b", "c"), ("{}",), split[:30], split[30:45] if val else None, split[45:])


def test_train_gets_k_val_at_most_four_and_test_stays():
    task = few_shot_task(toy(), 5, seed=1)
    assert set(Counter(task.train.labels).values()) == {5}
    assert set(Counter(task.val.labels).values()) == {4}
    assert len(task.test) == 15
    assert set(Counter(few_shot_task(toy(), 2, seed=1).val.labels).values()) == {2}
    assert few_shot_task(toy(val=False), 2, seed=1).val is None


def test_shots_must_be_positive():
    with pytest.raises(InputError, match="shots is 0"):
        few_shot_task(toy(), 0, seed=1)


def shot_list(path, entries):
    path.write_text(json.dumps({"train": {"data": entries}}))
    return path


def entry(name, label=0):
    return {"impath": f"./data/dtd/images/{name}", "label": label, "classname": "banded"}


def test_a_published_list_is_read_in_its_order(data_root, tmp_path):
    task = load_public("dtd", data_root)
    path = shot_list(tmp_path / "s.json", [entry("banded/banded_0003.jpg"), entry("banded/banded_0001.jpg")])
    listed = listed_task(task, path, "dtd")
    assert [listed.train.where(i).rsplit("/", 1)[1] for i in range(2)] == [
        "banded_0003.jpg",
        "banded_0001.jpg",
    ]
    assert listed.val is None
    assert listed_task(task, path, "dtd", task.test).val is task.test


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"train": {"data": [entry("banded/banded_9999.jpg")]}}, "is not in the split"),
        ({"train": {"data": [entry("banded/banded_0001.jpg", 2)]}}, "label 2, the split 0"),
        ({"train": {"data": ["x"]}}, "has the entry 'x'; expected impath"),
        ({"train": 3}, "holds no list"),
        ({"val": []}, "has no list train"),
    ],
)
def test_bad_lists_get_one_sentence(data_root, tmp_path, content, words):
    (tmp_path / "s.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=words):
        listed_task(load_public("dtd", data_root), tmp_path / "s.json", "dtd")
