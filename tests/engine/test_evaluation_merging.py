"""Equally named classes of two tasks count as one class where the benchmark says so."""

import numpy as np
import pytest
import torch

from dpw.data.task import Split, Task
from dpw.engine.evaluation import Evaluator, own_group, settle
from dpw.methods import Candidates


def task(name, *classes):
    split = Split.from_arrays(np.zeros((len(classes), 2, 2), np.uint8), range(len(classes)), name)
    return Task(name, classes, ("a {}",), split)


@pytest.mark.parametrize(("merged", "right"), [(False, 1), (True, 2)])
def test_a_class_of_another_task_is_right_when_it_reads_the_same(merged, right):
    tasks = [task("caltech", "sunflower", "sea_horse"), task("sea", "sea horse", "Sunflower")]
    question = Candidates.learned([own_group(each) for each in tasks])
    names = [name for _, name in question.classes]
    evaluator = Evaluator(None, None, "class-incremental", merge_equal_names=merged)
    predicted = torch.tensor([1, 2, 0])
    assert evaluator._count(predicted, [0, 0, 1], tasks[1], question, names) == right


NAMES = ["rose", "sea_horse", "sea horse", "rose gold"]


@pytest.mark.parametrize(
    ("logits", "right", "settled"),
    [
        ([0.0, 5.0, 5.0, 0.0], 2, 2),  # equal names tie: no error, whichever comes first
        ([0.0, 5.0, 5.0, 0.0], 1, 1),
        ([0.0, 5.0, 5.0 - 1e-6, 0.0], 2, 2),  # a difference that float32 rounds off
        ([0.0, 5.0, 4.99, 0.0], 2, 1),  # a real difference is an error
        ([5.0, 5.0, 0.0, 0.0], 1, 0),  # a tie of different names goes to the first
        ([0.0, 5.0, -np.inf, 0.0], 2, 1),
    ],
)
def test_a_tie_between_equal_names_is_no_error(logits, right, settled):
    found = settle(torch.tensor([logits]), torch.tensor([right]), NAMES)
    assert found.tolist() == [settled]
