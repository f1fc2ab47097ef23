"""What a kill leaves in a model folder is gone with the next command, even one that finds nothing to do."""

import shutil

import pytest

from dpw.errors import InputError
from dpw.storage import files
from dpw.storage.lock import FILE
from dpw.storage.model_json import changing, export_task, read_model, remove_task, tidy


class Killed(BaseException):
    """As good as a kill: nothing tidies up after it."""


@pytest.fixture
def half_forgotten(saved, tmp_path, monkeypatch):
    """A model whose `forget` died right after its commit; the tensors of the task, and where they lie."""
    folder = tmp_path / "model"
    shutil.copytree(saved[1], folder)
    tensors = folder / read_model(folder)["tasks"][0]["tensors"]["file"]
    monkeypatch.setattr(files, "_discard", killed)
    with pytest.raises(Killed):
        remove_task(folder, "birds")
    monkeypatch.undo()
    assert tensors.is_file()
    assert (folder / FILE).is_file()
    return folder, tensors


def killed(*_, **__):
    raise Killed


def test_the_same_forget_again_removes_what_the_first_left(half_forgotten):
    folder, tensors = half_forgotten
    with pytest.raises(InputError, match="has no task called 'birds'"):
        remove_task(folder, "birds")
    assert not tensors.exists()
    assert not (folder / FILE).exists()


def test_a_writer_who_does_nothing_removes_it_too_and_files_of_others_stay(half_forgotten):
    folder, tensors = half_forgotten
    precious = folder / "notes-0123456789abcdef.safetensors"
    precious.write_text("precious")
    with (folder / FILE).open("a") as journal:
        journal.write(f'"{precious.name}"\n')
    with changing(folder):
        assert not tensors.exists()
    assert precious.read_text() == "precious"
    export_task(folder, "metals", folder.parent / "metals")


def test_a_damaged_model_is_not_tidied_up(half_forgotten):
    folder, tensors = half_forgotten
    (folder / "model.json").write_text("{")
    with changing(folder):
        pass
    assert tensors.exists()


def test_only_a_lock_that_was_left_is_a_reason_to_tidy_up(half_forgotten, tmp_path):
    folder, tensors = half_forgotten
    tidy(folder)
    assert not tensors.exists()
    assert not (folder / FILE).exists()
    for name in ("empty", "left"):
        (tmp_path / name).mkdir()
    (tmp_path / "left" / FILE).touch()
    tidy(tmp_path / "left")
    tidy(tmp_path / "empty")
    tidy(tmp_path / "absent")
    assert not list((tmp_path / "left").iterdir())
    assert not (tmp_path / "absent").exists()
