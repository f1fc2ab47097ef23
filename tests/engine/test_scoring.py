"""Scores of a folder: all its images, by name, and to the digit what `predict` says."""

import json
import shutil

import pytest
from PIL import Image

from dpw import ContinualCLIP, Task
from dpw.errors import InputError
from tests.helpers.toy_learner import fresh, task


@pytest.fixture(scope="module")
def undivided(toy, tmp_path_factory):
    """The birds without splits: CLASS/*.png."""
    folder = tmp_path_factory.mktemp("undivided") / "birds"
    for name in ("crow", "robin", "swan"):
        for part in ("train", "test"):
            for image in (toy / "data" / "birds" / part / name).iterdir():
                (folder / name).mkdir(parents=True, exist_ok=True)
                shutil.copy(image, folder / name / f"{part}{image.name}")
    return folder


def test_all_images_are_scored_as_predict_answers_them(saved, undivided):
    model, _ = saved
    files = sorted(undivided.rglob("*.png"))
    score = model.evaluate_folder(undivided)
    answers = model.predict(files)
    assert score.overall.images == len(files) == 36
    right = [answer.label == file.parent.name for answer, file in zip(answers, files, strict=True)]
    assert score.overall.accuracy == 100 * sum(right) / 36
    assert [image.probability for image in score.images] == [answer.probability for answer in answers]
    assert score.overall.top5 == 100, "there are five candidates"
    assert score.overall.task_found == 100 * sum(answer.task == "birds" for answer in answers) / 36
    assert [one.name for one in score.tasks] == ["birds"]
    assert {one.name: one.images for one in score.classes} == {"crow": 12, "robin": 12, "swan": 12}
    assert sum(map(sum, score.confusion.counts)) == 36
    diagonal = sum(row[index] for index, row in enumerate(score.confusion.counts))
    assert diagonal == sum(right)
    assert sum(one.images for one in score.calibration.bins) == 36
    json.dumps(score.as_json())


def test_evaluate_scores_a_folder_whole_and_a_task_by_its_test_images(saved, undivided):
    model, _ = saved
    whole, fifth = model.evaluate([undivided, Task.from_folder(undivided)])
    assert (whole.images, fifth.images) == (36, 6)
    (part,) = model.evaluate([undivided / ".." / "birds"], setting="class-incremental")
    assert part.accuracy == pytest.approx(model.evaluate_folder(undivided).overall.accuracy)


def test_some_classes_of_a_task_are_measured_by_their_names(saved, undivided, tmp_path):
    model, _ = saved
    shutil.copytree(undivided / "swan", tmp_path / "birds" / "swan")
    (found,) = model.evaluate([tmp_path / "birds"], setting="class-incremental")
    swan = next(one for one in model.evaluate_folder(undivided).classes if one.name == "swan")
    assert found.accuracy == pytest.approx(swan.accuracy)


def test_a_divided_folder_is_taken_together(saved, toy):
    assert saved[0].evaluate_folder(toy / "data" / "birds").overall.images == 3 * (8 + 3 + 4)


def test_classes_of_two_tasks_in_one_folder(saved, toy, tmp_path):
    for task_name, name in (("birds", "crow"), ("metals", "rust")):
        shutil.copytree(toy / "data" / task_name / "test" / name, tmp_path / "mixed" / name)
    score = saved[0].evaluate_folder(tmp_path / "mixed")
    assert [(one.name, one.images) for one in score.tasks] == [("birds", 4), ("metals", 4)]


def test_equal_names_in_two_tasks_are_one_class(toy, tmp_path):
    model = fresh(toy)
    model.learn(task(toy, "birds"))
    copied = shutil.copytree(toy / "data" / "metals", tmp_path / "metals")
    for part in copied.iterdir():
        (part / "rust").rename(part / "crow")
    model.learn(Task.from_folder(copied))
    score = model.evaluate_folder(copied)
    crow = next(one for one in score.classes if one.name == "crow")
    answers = model.predict(sorted(copied.rglob("crow/*.png")))
    assert crow.accuracy == 100 * sum(answer.label == "crow" for answer in answers) / len(answers)
    assert [one.name for one in score.tasks] == ["metals"]


def test_names_may_have_underscores_and_classes_may_be_given(saved, undivided, tmp_path):
    shutil.copytree(undivided / "crow", tmp_path / "x" / "black_crow")
    model, _ = saved
    with pytest.raises(InputError, match="a class 'black_crow' that cannot be answered; answers are: crow, "):
        model.evaluate_folder(tmp_path / "x")
    shutil.copytree(undivided / "crow", tmp_path / "y" / "Crow")
    with pytest.raises(InputError, match="did you mean 'crow'"):
        model.evaluate_folder(tmp_path / "y")
    score = model.evaluate_folder(tmp_path / "x", classes=["black crow", "swan", "zebra"])
    assert score.candidates == 3
    assert score.tasks == ()
    assert score.confusion.classes == ("black_crow",)
    assert set(score.confusion.answers) <= {"black_crow", "swan", "zebra"}


def test_unreadable_images_are_named_and_do_not_count(saved, undivided, tmp_path):
    folder = shutil.copytree(undivided, tmp_path / "birds")
    (folder / "crow" / "bad.png").write_text("words")
    score = saved[0].evaluate_folder(folder)
    assert (score.overall.images, len(score.images)) == (36, 37)
    assert "bad.png is not an image" in score.errors[0]
    shutil.rmtree(folder / "swan")
    shutil.rmtree(folder / "robin")
    for path in folder.glob("crow/t*.png"):
        path.unlink()
    with pytest.raises(InputError, match="none of the 1 images"):
        saved[0].evaluate_folder(folder)


def test_strangers_are_compared_by_typicality(saved, undivided, tmp_path):
    model, _ = saved
    for shade in range(5):
        (tmp_path / "deep" / "er").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (30, 30), (250, 10 * shade, 0)).save(tmp_path / "deep" / "er" / f"{shade}.png")
    found = model.evaluate_folder(undivided, strangers=tmp_path / "deep", level=0.25).rejection
    strange = [answer.typicality for answer in model.predict(sorted(tmp_path.rglob("*.png")))]
    assert found.images == 5
    assert list(found.strange) == pytest.approx(strange, abs=1e-6)
    assert found.rejected == 100 * sum(value <= 0.25 for value in strange) / 5
    assert 0 <= found.auroc <= 100
    cut = sorted(found.known)[9]
    assert found.rejected_alike == 100 * sum(value < cut for value in found.strange) / 5


def test_whom_predict_calls_unknown_is_rejected_also_at_the_very_level(saved, undivided, tmp_path):
    model, _ = saved
    Image.new("RGB", (30, 30), (250, 0, 0)).save(tmp_path / "red.png")
    (own, *_) = sorted(answer.typicality for answer in model.predict(sorted(undivided.rglob("*.png"))))
    found = model.evaluate_folder(undivided, strangers=tmp_path, level=own).rejection
    answers = model.predict(sorted(undivided.rglob("*.png")), unknown=own)
    unknown = sum(answer.label == "unknown" for answer in answers)
    assert unknown > 0
    assert found.false_alarms == pytest.approx(100 * unknown / len(answers))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"level": 0}, "level = 0 must lie between"),
        ({"strangers": "nowhere"}, "none of the images of nowhere"),
    ],
)
def test_mistakes_are_sentences(saved, undivided, options, sentence):
    with pytest.raises(InputError, match=sentence):
        saved[0].evaluate_folder(undivided, **options)


def test_a_method_without_tasks_to_compare_says_so(toy, undivided):
    model = ContinualCLIP.from_pretrained(toy / "clip", "zero-shot")
    with pytest.raises(InputError, match="'zero-shot' does not say how typical"):
        model.evaluate_folder(undivided, classes=["crow", "robin", "swan"], strangers=undivided)


def test_a_folder_of_tasks_is_told_from_a_folder_of_classes(saved, toy):
    with pytest.raises(InputError, match=r"holds 'birds', which is a task, not a class: give .*data/birds"):
        saved[0].evaluate_folder(toy / "data")
