"""The first answer of a loaded model: what is stored is not computed again, no digit depends on history."""

import shutil

import pytest

from dpw import ContinualCLIP
from tests.helpers.checks import nonempty
from tests.helpers.toy_learner import SETTINGS, task


@pytest.fixture(scope="module", params=["dpw", "dpw-ridge", "diki"])
def model_folder(request, toy, tmp_path_factory):
    """A saved model of two toy tasks."""
    settings = {key: value for key, value in SETTINGS.items() if request.param != "diki" or "rank" not in key}
    model = ContinualCLIP.from_pretrained(toy / "clip", request.param, settings=settings)
    for name in ("birds", "metals"):
        model.learn(task(toy, name))
    folder = tmp_path_factory.mktemp(request.param) / "m"
    model.save_pretrained(folder)
    return folder


@pytest.fixture
def pictures(toy):
    """Test images of three tasks, one of them never learned."""
    return nonempty(sorted((toy / "data").glob("*/test/*/*.png")))


def test_texts_of_learned_classes_are_not_encoded_again(model_folder, pictures, monkeypatch):
    model = ContinualCLIP.from_pretrained(model_folder)
    for name in ("encode_texts", "encode_copies"):
        monkeypatch.setattr(model.method.backbone, name, None)
    assert all(answer.error is None for answer in model.predict(pictures))


@pytest.mark.parametrize("classes", [None, ["crow", "zebra", "gold"]])
def test_an_image_gets_the_same_digits_whatever_was_asked_before(model_folder, pictures, classes):
    fresh, used = (ContinualCLIP.from_pretrained(model_folder) for _ in range(2))
    used.predict(pictures[1:], classes=classes)
    used.predict(pictures[:3], classes=["moon", "sun"])
    assert used.predict(pictures[0], classes=classes) == fresh.predict(pictures[0], classes=classes)


def test_a_task_more_or_less_changes_nothing_that_is_kept(model_folder, pictures, tmp_path):
    copied = shutil.copytree(model_folder, tmp_path / "m")
    model = ContinualCLIP.from_pretrained(copied)
    model.predict(pictures)
    model.forget("birds")
    alone = ContinualCLIP.from_pretrained(copied)
    alone.forget("birds")
    assert model.predict(pictures) == alone.predict(pictures)
