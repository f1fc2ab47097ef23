"""Stored tasks stay on disk until an answer needs them; every byte is checked at loading and at reading."""

import os
import shutil
import time

import pytest
import torch

from dpw import ContinualCLIP
from dpw.errors import DamagedFileError
from dpw.methods import bank
from dpw.storage import files, task_file
from dpw.storage.model_folder import remove_task
from tests.helpers.command_line import dpw
from tests.helpers.toy_learner import fresh, task


@pytest.fixture
def folder(saved, tmp_path):
    """A copy of a model of two tasks, whose files have the age of files that were not written just now."""
    shutil.copytree(saved[1], tmp_path / "m")
    return tmp_path / "m"


@pytest.fixture
def settled(monkeypatch):
    """No file is too new to be trusted."""
    monkeypatch.setattr(files, "AGED", -1)


def flip(folder, name):
    """Flip a bit of a task's file in place; gives its path."""
    path = next(folder.glob(f"{name}-*.safetensors"))
    time.sleep(0.05)  # file systems tell times apart by some milliseconds
    with path.open("r+b") as file:
        file.seek(-8, os.SEEK_END)
        byte = file.read(1)[0]
        file.seek(-8, os.SEEK_END)
        file.write(bytes([byte ^ 1]))
    return path


def whole(model):
    """The tasks that are in memory whole."""
    return [
        name
        for name, slot in zip(model.tasks, map(model.method.bank.slot, range(2)), strict=True)
        if not isinstance(slot, bank.StoredTask)
    ]


def test_a_loaded_model_answers_as_the_one_that_learned_and_holds_no_task_whole(saved, folder, picture):
    model = ContinualCLIP.from_pretrained(folder)
    assert model.predict(picture) == saved[0].predict(picture)
    assert whole(model) == []
    assert model.method.parameter_count() == saved[0].method.parameter_count()


def test_of_many_tasks_only_the_latest_stay_and_answers_are_the_same(saved, folder, picture, monkeypatch):
    monkeypatch.setattr(bank, "KEPT_BYTES", 1)
    model = ContinualCLIP.from_pretrained(folder)
    for index in (0, 1, 0):
        model.method.bank.part(index, "image")
        assert len(model.method.bank._recent) == 1
    assert model.predict(picture) == saved[0].predict(picture)


def test_what_was_read_is_kept_in_training_form(folder):
    model = ContinualCLIP.from_pretrained(folder)
    with torch.inference_mode():
        tower = model.method.bank.part(0, "image")
    assert not any(parameter.is_inference() for parameter in tower.parameters())


def test_no_answer_comes_from_a_file_that_was_damaged_after_loading(folder, picture):
    model = ContinualCLIP.from_pretrained(folder)
    for name in model.tasks:
        flip(folder, name)
    with pytest.raises(DamagedFileError, match="SHA-256"):
        model.predict(picture)


def test_a_task_that_another_process_forgets_can_still_be_asked(saved, folder, picture):
    model = ContinualCLIP.from_pretrained(folder)
    for name in model.tasks:
        remove_task(folder, name)
    assert not list(folder.glob("birds-*"))
    assert model.predict(picture) == saved[0].predict(picture)


def test_a_file_that_is_not_kept_open_and_gone_is_one_sentence(folder, picture, monkeypatch):
    monkeypatch.setattr(task_file, "KEPT_OPEN", 0)
    model = ContinualCLIP.from_pretrained(folder)
    for path in folder.glob("*-*.safetensors"):
        path.unlink()
    with pytest.raises(DamagedFileError, match="is missing: restore it"):
        model.predict(picture)


def test_values_that_are_not_finite_are_refused_when_they_are_read(saved, folder, monkeypatch):
    model = ContinualCLIP.from_pretrained(folder)
    load = task_file.load
    monkeypatch.setattr(task_file, "load", lambda content: {n: t / 0 for n, t in load(content).items()})
    with pytest.raises(DamagedFileError, match="NaN or infinite"):
        model.method.bank.part(0, "image")


# ------------------------------------------------------------------------------------------------- saving


@pytest.fixture
def hashed(monkeypatch):
    """Names of the files that are hashed, as they are."""
    found, real = [], files.file_digest
    monkeypatch.setattr(files, "file_digest", lambda path: found.append(path.name) or real(path))
    return found


@pytest.mark.usefixtures("settled")
def test_saving_hashes_only_files_that_somebody_wrote_to(folder, hashed):
    model = ContinualCLIP.from_pretrained(folder)
    model.save_pretrained(folder)
    assert not [name for name in hashed if not name.startswith(("shared", "model.json"))]
    path = next(folder.glob("birds-*"))
    path.write_bytes(path.read_bytes())  # the same bytes: nobody can know before they are hashed
    model.save_pretrained(folder)
    assert path.name in hashed
    hashed.clear()
    model.save_pretrained(folder)
    assert path.name not in hashed


def test_a_file_that_was_just_written_is_hashed_once_more(folder, hashed, monkeypatch):
    monkeypatch.setattr(files, "AGED", 10**18)
    ContinualCLIP.from_pretrained(folder).save_pretrained(folder)
    assert [name for name in hashed if name.startswith("birds")]


@pytest.mark.usefixtures("settled")
def test_saving_does_not_carry_a_damaged_file_along(folder):
    model = ContinualCLIP.from_pretrained(folder)
    before = (folder / "model.json").read_bytes()
    path = flip(folder, "birds")
    with pytest.raises(DamagedFileError, match=rf"{path.name} was changed after it was written"):
        model.save_pretrained(folder)
    assert (folder / "model.json").read_bytes() == before


@pytest.mark.usefixtures("settled")
def test_saving_mends_a_damaged_file_of_a_task_that_is_in_memory(toy, tmp_path):
    model = fresh(toy)
    model.learn(task(toy, "birds"))
    model.save_pretrained(tmp_path / "m")
    good = next((tmp_path / "m").glob("birds-*")).read_bytes()
    path = flip(tmp_path / "m", "birds")
    model.save_pretrained(tmp_path / "m")
    assert path.read_bytes() == good


def test_a_copy_in_another_folder_is_complete(saved, folder, tmp_path, picture):
    ContinualCLIP.from_pretrained(folder).save_pretrained(tmp_path / "copy")
    shutil.rmtree(folder)
    assert ContinualCLIP.from_pretrained(tmp_path / "copy").predict(picture) == saved[0].predict(picture)


@pytest.mark.parametrize("name", ["birds", "metals", "shared"])
def test_the_check_of_a_model_names_the_file_that_was_damaged(folder, capsys, name):
    code, _, err = dpw(capsys, "tasks", folder, "--check")
    assert (code, err) == (0, f"{folder}: every file is as it was written\n")
    path = flip(folder, name)
    code, _, err = dpw(capsys, "tasks", folder, "--check")
    assert code == 2
    assert f"{path.name} was changed after it was written" in err
    assert "Traceback" not in err
