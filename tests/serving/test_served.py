"""A served model: texts filled before the first question, bounded memory, digits as everywhere."""

import pytest

from dpw import ContinualCLIP
from dpw.serving import served
from dpw.serving.served import Question, load_served, revision_of
from tests.helpers.toy_learner import SETTINGS, task


@pytest.fixture(scope="module")
def weighted(toy, tmp_path_factory):
    """A folder of the method whose texts depend on each image's weight."""
    learner = ContinualCLIP.from_pretrained(toy / "clip", "dpw", settings=SETTINGS)
    for name in ("birds", "metals"):
        learner.learn(task(toy, name))
    folder = tmp_path_factory.mktemp("weighted")
    learner.save_pretrained(folder)
    return folder


def test_no_text_is_encoded_after_the_start_and_the_digits_stay(weighted, photos, monkeypatch):
    names, images = list(photos), list(photos.values())
    model = load_served(weighted)

    def refuse(*_):
        raise AssertionError("a text was encoded while answering")

    monkeypatch.setattr(model.method.answers.texts, "encode", refuse)
    pixels, errors = model.read(images, names)
    found = model.answer(pixels, names, Question(top=3))
    one_by_one = [ContinualCLIP.from_pretrained(weighted).predict(image, top=3) for image in images[::6]]
    assert errors == {}
    assert [one.as_json() | {"image": ""} for one in found[::6]] == [
        one.as_json() | {"image": ""} for one in one_by_one
    ]


@pytest.mark.parametrize("method", ["linear-probe", "tip-adapter", "rail", "lada"])
def test_methods_beside_clip_are_served_as_the_library_answers(toy, tmp_path, photos, method):
    settings = {"width": 40} if method == "rail" else {"training.epochs": 2, "training.batch_size": 4}
    learner = ContinualCLIP.from_pretrained(toy / "clip", method, settings=settings)
    for name in ("birds", "metals"):
        learner.learn(task(toy, name))
    learner.save_pretrained(tmp_path / "model")
    model, names, images = load_served(tmp_path / "model"), list(photos), list(photos.values())
    learner = ContinualCLIP.from_pretrained(tmp_path / "model")
    for question in (Question(top=2), Question(classes=("oak", "crow"))):
        found = model.answer(model.read(images, names)[0], names, question)
        expected = learner.predict(images, classes=question.classes, top=question.top)
        assert [one.as_json() | {"image": ""} for one in found] == [
            one.as_json() | {"image": ""} for one in expected
        ]


def test_lists_of_classes_are_not_kept_for_ever(folder, photos, monkeypatch):
    monkeypatch.setattr(served, "FOREIGN", 3)
    model = load_served(folder)
    name = next(iter(photos))
    pixels, _ = model.read([photos[name]], [name])
    first = model.answer(pixels, [name], Question(classes=("oak", "fir")))
    own = len(model.method._tokens)
    for number in range(20):
        model.answer(pixels, [name], Question(classes=(f"a{number}", "b")))
        assert len(model.method._tokens) <= own + 3
    assert model.answer(pixels, [name], Question(classes=("oak", "fir"))) == first


def test_a_vote_is_noticed_and_a_clip_has_no_revision(folder, toy):
    assert not load_served(folder).votes
    assert revision_of(toy / "clip") == "clip"
    assert len(revision_of(folder)) == 16
