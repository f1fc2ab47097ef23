"""A few real steps say how long a run takes."""

import time

import pytest

from dpw.methods import METHODS, configure
from dpw.runs.estimate import IMAGES, measure
from tests.helpers.tiny_clip import tiny_backbone


@pytest.mark.parametrize("name", ["dpw", "zscl", "gift", "moe-adapters", "l2p"])
def test_steps_and_answers_of_any_kind_of_method_are_timed(name):
    small = {
        key: 4
        for key in ("reference_batch", "synthetic_batch")
        if key in METHODS[name].config_class.model_fields
    }
    found = measure(name, configure(name, settings={"training.batch_size": 4, **small}), tiny_backbone(), 3)
    assert 0 < found.step < 60
    assert 0 < found.image < 60
    assert found.memory is None or found.memory > 1e6


def test_a_method_that_trains_nothing_has_no_step():
    assert measure("zero-shot", configure("zero-shot"), tiny_backbone(), 2).step == 0


def test_the_first_question_warms_up_and_does_not_count(monkeypatch):
    answer, asked = METHODS["zero-shot"].logits, []

    def slow_at_first(method, images, question):
        asked.append(len(images))
        time.sleep(0.5 if len(asked) == 1 else 0)
        return answer(method, images, question)

    monkeypatch.setattr(METHODS["zero-shot"], "logits", slow_at_first)
    found = measure("zero-shot", configure("zero-shot"), tiny_backbone(), 2)
    assert asked[1:] == [IMAGES] * len(asked[1:])
    assert len(asked) >= 3
    assert found.image * IMAGES < 0.25
