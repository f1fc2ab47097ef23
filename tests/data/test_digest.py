"""The digest of a task follows its data, not the place where it lies."""

import os
import shutil

import pytest

from dpw import Task
from dpw.data import digest
from dpw.data.digest import task_digest
from dpw.data.task import whole_task


@pytest.fixture
def birds(toy, tmp_path):
    shutil.copytree(toy / "data" / "birds", tmp_path / "birds")
    return tmp_path / "birds"


def test_it_is_the_same_elsewhere_and_from_elsewhere(toy, birds, monkeypatch):
    first = task_digest(Task.from_folder(toy / "data" / "birds"))
    monkeypatch.chdir(birds.parent)
    assert task_digest(Task.from_folder("birds")) == first


@pytest.mark.parametrize("whole", [True, False])
def test_a_removed_or_changed_file_changes_it(birds, whole, monkeypatch):
    if not whole:
        monkeypatch.setattr(digest, "WHOLE_BYTES", 0)
    first = task_digest(Task.from_folder(birds))
    picture = birds / "train" / "crow" / "0.png"
    content = picture.read_bytes()
    picture.write_bytes(content + b"x")
    assert task_digest(Task.from_folder(birds)) != first
    picture.write_bytes(content[:-1] + b"x")
    assert (task_digest(Task.from_folder(birds)) != first) is whole
    picture.unlink()
    assert task_digest(Task.from_folder(birds)) != first


def test_class_names_and_templates_count(birds):
    tasks = [
        Task.from_folder(birds),
        Task.from_folder(birds, class_names={"crow": "raven"}),
        Task.from_folder(birds, templates=("a {}",)),
        Task.from_folder(birds, name="other"),
    ]
    assert len(set(map(task_digest, tasks))) == len(tasks)


def test_joined_splits_count_by_content_not_by_place_and_time(toy, birds):
    def joined(folder):
        return task_digest(whole_task(Task.from_folder(folder, name="birds")))

    first = joined(toy / "data" / "birds")
    assert joined(birds) == first
    picture = birds / "train" / "crow" / "0.png"
    os.utime(picture, (1, 1))
    assert joined(birds) == first
    content = picture.read_bytes()
    picture.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(picture, (1, 1))
    assert joined(birds) != first
