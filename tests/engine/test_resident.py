"""Cases of answers on a pretended accelerator, run in a process of their own; and where no graph is asked."""

import pytest
import torch

from dpw.engine.resident import ask_resident, knows_double
from dpw.methods import Candidates
from tests.helpers.pretended_cases import run_cases
from tests.helpers.toy_methods import learn, some_pixels, toy_method, toy_task


def test_answers_of_a_pretended_accelerator():
    run_cases(__file__, "resident_cases.py")


def test_a_processor_answers_task_by_task():
    method = learn(toy_method("dpw"), toy_task("dtd")).eval()
    assert ask_resident(method, some_pixels(), Candidates.learned([method.tasks[0].group()])) is None


@pytest.mark.parametrize(("double", "known"), [(True, True), (False, False)])
def test_whether_a_device_knows_double_precision_is_tried(monkeypatch, double, known):
    def zeros(*_, **__):
        if not double:
            raise TypeError("no float64 here")

    monkeypatch.setattr(torch, "zeros", zeros)
    assert knows_double.__wrapped__(torch.device("meta")) is known
