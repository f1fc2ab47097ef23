"""What the buttons of `dpw play` do, without a page."""

import shutil

import pytest

from dpw import ContinualCLIP, InputError
from dpw.serving.desk import Desk
from dpw.serving.play_html import answers_html, gathered_html, tasks_html
from dpw.storage.lock import writing


@pytest.fixture
def desk(folder):
    return Desk(str(folder))


def signs(toy):
    """Images of two classes by name."""
    return {
        label: [str(path) for path in sorted((toy / "data" / "signs" / "train" / label).glob("*.png"))]
        for label in ("stop", "yield")
    }


def test_answers_are_those_of_the_model_and_of_plain_clip(desk, folder, toy, picture, tmp_path):
    (tmp_path / "<bad>.png").write_bytes(b"no image")
    images = [str(picture), str(tmp_path / "<bad>.png")]
    good, bad = desk.ask(images)
    assert good.model == ContinualCLIP.from_pretrained(folder).predict(str(picture))
    every = ["crow", "robin", "swan", "gold", "rust"]
    assert good.zero_shot == ContinualCLIP.from_pretrained(toy / "clip", "zero-shot").predict(
        str(picture), classes=every
    )
    assert bad.model.error
    page = answers_html(images, [good, bad])
    assert "&lt;bad&gt;.png is not an image" in page
    assert str(tmp_path) not in page
    assert desk.ask(images[:1], ["oak", "fir"])[0].model.label in ("oak", "fir")


def test_a_task_is_taught_with_progress_and_forgotten(desk, toy, folder):
    seen = list(desk.teach("signs", signs(toy), seconds=20))
    assert seen[-1].done
    assert "learned signs: 2 classes" in seen[-1].sentence
    assert any("step" in one.sentence for one in seen)
    assert [task["name"] for task in desk.tasks()] == ["birds", "metals", "signs"]
    with pytest.raises(InputError, match="already learned: tick"):
        list(desk.teach("signs", signs(toy)))
    assert "left: birds, metals" in desk.forget("signs")
    assert ContinualCLIP.from_pretrained(folder).tasks == ["birds", "metals"]
    with pytest.raises(InputError, match="no task called 'signs'"):
        desk.forget("signs")


def test_what_cannot_be_taught_is_a_sentence_and_changes_nothing(desk, toy, folder, tmp_path):
    before = (folder / "model.json").read_bytes()
    (tmp_path / "torn.png").write_bytes(b"no image")
    wrong = [
        ("", signs(toy), "no name"),
        ("signs", {}, "no image to learn from"),
        ("signs", {"../up": [str(tmp_path / "torn.png")]}, "cannot be the name of a class"),
        ("signs", {**signs(toy), ".net": signs(toy)["stop"]}, "'.net' cannot be the name of a class"),
        ("signs", {"stop": [str(tmp_path / "torn.png")] * 3}, "^stop/000"),
    ]
    for name, images, words in wrong:
        with pytest.raises(InputError, match=words):
            list(desk.teach(name, images))
    with writing(folder), pytest.raises(InputError):
        list(desk.teach("signs", signs(toy)))  # another program holds the folder
    teaching = desk.teach("signs", signs(toy))
    next(teaching)
    with pytest.raises(InputError, match="somebody is teaching"):
        list(desk.teach("more", signs(toy)))
    desk.end()
    with pytest.raises(InputError):
        list(teaching)
    assert (folder / "model.json").read_bytes() == before


def test_what_is_only_shown_cannot_be_changed(folder, toy):
    shown = Desk(str(folder), read_only=True)
    for change in (lambda: list(shown.teach("signs", signs(toy))), lambda: shown.forget("birds")):
        with pytest.raises(InputError, match="only shown"):
            change()
    clip = Desk(str(shutil.copytree(toy / "clip", folder.parent / "clip")))
    assert clip.read_only
    assert clip.tasks() == []


def test_names_are_never_obeyed():
    assert "<b>x" not in tasks_html([{"name": "<b>x", "classes": ["<i>"], "details": {}}])
    assert "<script>" not in gathered_html({"<script>": ["a.png"]})
