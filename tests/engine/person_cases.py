"""What a person does with a model, all of it on a pretended accelerator: learn, ask, explain, measure."""

from unittest.mock import patch

import pytest
from PIL import Image

import dpw.learner
from dpw import ContinualCLIP
from dpw.analysis import explain
from dpw.methods import METHODS
from tests.helpers.pretended import DEVICE, PretendedAccelerator, pretended
from tests.helpers.toy_methods import stripes, toy_method, toy_task

EXPLAINED = ("dpw-ridge", "dpw", "diki")
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("dpw", "diki", "linear-probe", "tip-adapter")]


def accelerator_of(device):
    """What is made for the device of the model."""
    assert device == DEVICE
    return PretendedAccelerator()


@pytest.mark.parametrize("name", ["dpw-ridge", "rail", *SLOW])
def test_everything_a_person_asks_for(name, tmp_path):
    images, _ = stripes(3, 7, seed=10)
    Image.fromarray(images[0]).save(tmp_path / "a.png")
    found = METHODS[name].folder_rates
    with pretended(), patch.object(dpw.learner, "make_accelerator", accelerator_of):
        learner = ContinualCLIP(toy_method(name, **METHODS[name].folder_settings)).to(DEVICE)
        for task in ("aircraft", "dtd"):
            learner.learn(toy_task(task), **({"time_limit": 1.0, "steps": 2} if found else {}))
        assert {answer.error for answer in learner.predict(images)} == {None}
        assert {answer.label for answer in learner.predict(images, classes=["jet"])} == {"jet"}
        assert learner.embed_images(images).shape[0] == len(images)
        assert learner.embed_texts("a dog").isfinite().all()
        assert 0 <= learner.evaluate([toy_task("aircraft")])[0].accuracy <= 100
        learner.save_pretrained(tmp_path / "model")
        if name in EXPLAINED:
            assert learner.embed_images(images[0], task="dtd").isfinite().all()
            assert learner.predict(images[0], unknown=0.05).error is None
            assert explain(learner, tmp_path / "a.png").tasks
        learner.learn(toy_task("mnist"), **({"learning_rate": 0.03, "steps": 2} if found else {}))
        assert learner.tasks == ["aircraft", "dtd", "mnist"]
