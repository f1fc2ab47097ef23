"""`dpw predict` for files and whole folders, on the screen and into a table."""

import csv
import json
import shutil

import pytest
from rich.console import Console

from tests.helpers.command_line import dpw


@pytest.fixture
def photos(toy, tmp_path):
    """A folder of eight good images at two depths, a hidden one, a text file and a bad image."""
    folder = tmp_path / "photos"
    shutil.copytree(toy / "data" / "metals" / "test", folder / "metals")
    (folder / ".hidden.png").write_bytes(b"")
    (folder / "notes.txt").write_text("no image")
    (folder / "metals" / "gold" / "9.png").write_text("not an image")
    return folder


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_folder_is_answered_in_order_and_bad_images_are_rows(capsys, saved, photos, tmp_path):
    model, folder = saved
    code, out, err = dpw(capsys, "predict", folder, photos, "--csv", tmp_path / "out.csv")
    assert code == 2
    assert "9 images, 1 of them could not be read" in out
    assert "9.png is not an image" in err
    found = rows(tmp_path / "out.csv")
    images = [row["image"] for row in found]
    assert images == sorted(str(path) for path in photos.glob("metals/*/*.png"))
    answers = model.predict(images)
    for row, answer in zip(found, answers, strict=True):
        assert row["class"] == (answer.label or "")
        assert row["error"] == (answer.error or "")
        assert answer.error or float(row["probability"]) == pytest.approx(answer.probability, abs=1e-6)


def test_an_interrupted_table_is_continued(capsys, saved, photos, tmp_path):
    (photos / "metals" / "gold" / "9.png").unlink()
    path = tmp_path / "out.csv"
    assert dpw(capsys, "predict", saved[1], photos, "--csv", path)[0] == 0
    whole = path.read_bytes()
    assert dpw(capsys, "predict", saved[1], photos, "--csv", path)[0] == 0
    assert path.read_bytes() == whole
    path.write_bytes(whole[: len(whole) // 2])
    code, out, _ = dpw(capsys, "predict", saved[1], photos, "--csv", path, "--json")
    assert code == 0
    assert json.loads(out) == {"csv": str(path), "images": 8, "failed": 0, "were_there": 3}
    images = [line.split(b",")[:2] for line in path.read_bytes().splitlines()]
    assert images == [line.split(b",")[:2] for line in whole.splitlines()]


def test_ctrl_c_leaves_whole_lines(capsys, saved, photos, tmp_path, monkeypatch):
    from dpw.cli import terminal

    asked = iter([False, False, True])
    monkeypatch.setattr(terminal.StopRequest, "__call__", lambda _: next(asked))
    code, _, err = dpw(capsys, "predict", saved[1], photos, "--csv", tmp_path / "out.csv")
    assert code == 130
    assert "stopped after 3 images; the same command goes on" in err
    assert len(rows(tmp_path / "out.csv")) == 3


def test_another_model_is_refused(capsys, saved, toy, photos, tmp_path):
    dpw(capsys, "predict", saved[1], photos, "--csv", tmp_path / "out.csv")
    code, _, err = dpw(
        capsys, "predict", toy / "clip", photos, "--csv", tmp_path / "out.csv", "--classes", "rust,gold"
    )
    assert code == 2
    assert "begun by another model" in err
    (tmp_path / "mine.csv").write_text("my notes\n")
    assert dpw(capsys, "predict", saved[1], photos, "--csv", tmp_path / "mine.csv")[0] == 2
    assert (tmp_path / "mine.csv").read_text() == "my notes\n"


def test_folders_and_files_on_the_screen(capsys, saved, photos, picture):
    code, out, err = dpw(capsys, "predict", saved[1], picture, photos)
    assert code == 2
    assert len(out.splitlines()) == 9
    assert len(err.splitlines()) == 1
    assert out.startswith(str(picture))


def test_progress_is_shown_on_a_terminal_only(capsys, saved, photos, tmp_path, monkeypatch):
    from dpw.cli import terminal

    _, _, err = dpw(capsys, "predict", saved[1], photos, "--csv", tmp_path / "quiet.csv")
    assert len(err.splitlines()) == 1
    monkeypatch.setattr(terminal, "console", Console(force_terminal=True, stderr=True, width=100))
    _, _, err = dpw(capsys, "predict", saved[1], photos, "--csv", tmp_path / "seen.csv")
    assert "9 of 9" in err
