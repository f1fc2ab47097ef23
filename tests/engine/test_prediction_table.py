"""A table of predictions knows who answered what, and goes on only with the same."""

from pathlib import Path

import pytest

from dpw import ContinualCLIP, Prediction
from dpw.engine.prediction_table import PredictionTable
from dpw.errors import InputError
from dpw.storage.model_folder import digest
from tests.helpers.toy_learner import task

IMAGES = [Path("a.jpg"), Path("=b.jpg"), Path("c.jpg")]


def table(model, path, classes=None, top=2, unknown=None):
    return PredictionTable(path, model.method, model.question(classes), top, unknown)


def answered(model, path, images=IMAGES):
    """A table with an answer for every image, the second of them an error."""
    new = table(model, path)
    for image in list(new.unanswered(images)):
        wrong = image.name == "=b.jpg"
        new.add(Prediction(str(image), error="no image") if wrong else Prediction(str(image), "crow", 0.5))
    return new


def test_rows_are_counted_and_continued(saved, tmp_path):
    model, _ = saved
    first = answered(model, tmp_path / "t.csv", IMAGES[:2])
    assert (first.answered, first.failed, first.found) == (2, 1, 0)
    again = table(model, tmp_path / "t.csv")
    assert list(again.unanswered(IMAGES)) == IMAGES[2:]
    assert (again.answered, again.failed, again.found) == (2, 1, 2)
    header, row, wrong = (tmp_path / "t.csv").read_text().splitlines()
    assert header == "image,class,probability,task,confidence,typicality,error,class_2,probability_2,model"
    assert row.startswith("a.jpg,crow,0.5,,,,,,,")
    assert wrong.startswith("'=b.jpg,,,,,,no image,,,")


def test_another_model_or_question_is_refused(saved, toy, tmp_path):
    model, folder = saved
    answered(model, tmp_path / "t.csv")
    before = (tmp_path / "t.csv").read_bytes()
    other = ContinualCLIP.from_pretrained(folder)
    assert digest(other.method) == digest(model.method)
    assert list(table(other, tmp_path / "t.csv").unanswered(IMAGES)) == []
    other.forget("metals")
    for changed in (
        table(other, tmp_path / "t.csv"),
        table(model, tmp_path / "t.csv", classes=["crow"]),
        table(model, tmp_path / "t.csv", unknown=0.05),
    ):
        with pytest.raises(InputError, match="begun by another model or with another question"):
            changed.unanswered(IMAGES)
    with pytest.raises(InputError, match="other columns"):
        table(model, tmp_path / "t.csv", top=3).unanswered(IMAGES)
    other.learn(task(toy, "metals"), seed=5)
    assert digest(other.method) != digest(model.method)
    assert (tmp_path / "t.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("images", "sentence"),
    [
        ([IMAGES[0], IMAGES[2]], "'=b.jpg in line 3, but now c.jpg comes there"),
        (IMAGES[:1], "in line 3, but there is no such image now"),
    ],
)
def test_other_images_are_refused(saved, tmp_path, images, sentence):
    answered(saved[0], tmp_path / "t.csv")
    with pytest.raises(InputError, match=sentence):
        table(saved[0], tmp_path / "t.csv").unanswered(images)
