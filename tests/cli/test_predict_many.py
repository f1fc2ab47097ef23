"""`dpw predict --from --to` on the command line, by one process."""

import pytest

from tests.helpers.command_line import dpw


def test_a_folder_is_answered_once(capsys, saved, toy, tmp_path):
    command = [
        "predict",
        saved[1],
        "--from",
        toy / "data" / "signs" / "test",
        "--to",
        tmp_path / "out.parquet",
    ]
    code, out, _ = dpw(capsys, *command)
    assert code == 0 and "8 images answered now, 0 of them" in out
    code, out, _ = dpw(capsys, *command)
    assert code == 0 and "0 images answered now" in out


def test_images_that_cannot_be_read_are_counted(capsys, saved, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").write_bytes(b"no image")
    code, out, _ = dpw(capsys, "predict", saved[1], "--from", tmp_path / "photos", "--to", tmp_path / "out")
    assert code == 2 and "1 of them could not be read" in out


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([], "give images or folders"),
        (["--from", "x"], "belong together"),
        (["a.png", "--from", "x", "--to", "y"], "leave those out"),
        (["a.png", "--cluster", "local"], "--cluster needs --from"),
        (["--from", "nowhere", "--to", "y"], "nowhere"),
    ],
)
def test_half_a_command_is_one_sentence(capsys, saved, tmp_path, monkeypatch, given, sentence):
    monkeypatch.chdir(tmp_path)
    code, _, err = dpw(capsys, "predict", saved[1], *given)
    assert code == 2 and sentence in err and err.count("\n") == 1
