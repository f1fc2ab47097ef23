"""Divisions and few-shot draws depend on the seed alone and lose nothing."""

import functools
import operator
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from dpw.data.draws import divide, few_shot


@given(st.lists(st.integers(0, 4), max_size=60), st.floats(0, 0.4), st.floats(0, 0.4), st.integers())
@settings(max_examples=50)
def test_a_division_loses_nothing_and_leaves_every_class_something_to_learn(labels, val, test, seed):
    parts = divide(labels, (val, test), str(seed))
    assert sorted(functools.reduce(operator.iadd, parts, [])) == list(range(len(labels)))
    assert {labels[place] for place in parts[-1]} == set(labels)


labelled = st.lists(st.integers(0, 5), max_size=80)


@given(labelled, st.integers(1, 20), st.integers())
def test_a_draw_takes_k_of_each_class_or_all_there_are(labels, shots, seed):
    chosen = few_shot(labels, shots, seed=seed, dataset="d", split="train")
    assert len(set(chosen)) == len(chosen)
    drawn, present = Counter(labels[place] for place in chosen), Counter(labels)
    assert drawn == {label: min(shots, count) for label, count in present.items()}


def test_a_draw_depends_on_seed_dataset_and_split_only():
    labels = [0] * 30 + [1] * 30
    choose = {"seed": 1, "dataset": "dtd", "split": "train"}
    first = few_shot(labels, 5, **choose)
    assert first == few_shot(labels, 5, **choose)
    for other in ({"seed": 2}, {"dataset": "food"}, {"split": "val"}):
        assert first != few_shot(labels, 5, **(choose | other))


def test_a_class_with_too_few_images_is_drawn_with_repetition_only_on_request():
    labels = [0] * 3 + [1] * 30
    choose = {"seed": 1, "dataset": "d", "split": "train"}
    few, refilled = few_shot(labels, 16, **choose), few_shot(labels, 16, **choose, refill=True)
    assert len(few) == 3 + 16
    assert len(refilled) == 2 * 16
    assert {labels[row] for row in refilled[:16]} == {0}
