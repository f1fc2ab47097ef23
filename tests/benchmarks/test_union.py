"""Classes of several tasks as one list, with and without merging equal names."""

import numpy as np

from dpw.benchmarks import unite_classes
from dpw.data.task import Split, Task


def task(name, *classes):
    split = Split.from_arrays(np.zeros((len(classes), 2, 2), np.uint8), range(len(classes)), name)
    return Task(name, classes, ("a {}",), split)


TASKS = [
    task("caltech", "sunflower", "sea_horse"),
    task("cifar", "rose", "sunflower"),
    task("sea", "sea horse"),
]


def test_without_merging_every_class_is_its_own():
    union = unite_classes(TASKS, merge_equal_names=False)
    assert union.names == ("sunflower", "sea_horse", "rose", "sunflower", "sea horse")
    assert union.places == ((0, 1), (2, 3), (4,))
    assert union.owners == (((0, 0),), ((0, 1),), ((1, 0),), ((1, 1),), ((2, 0),))


def test_merging_makes_equally_shown_names_one_class():
    union = unite_classes(TASKS, merge_equal_names=True)
    assert union.names == ("sunflower", "sea_horse", "rose")
    assert union.places == ((0, 1), (2, 0), (1,))
    assert union.owners == (((0, 0), (1, 1)), ((0, 1), (2, 0)), ((1, 0),))


def test_case_matters():
    union = unite_classes([task("a", "forest"), task("b", "Forest")], merge_equal_names=True)
    assert len(union.names) == 2
