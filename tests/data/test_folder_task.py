"""A plain folder of images is a task."""

import shutil
from pathlib import Path

import pytest

from dpw.data.task import Task
from dpw.errors import InputError
from tests.helpers.dataset_layouts import image


def make(root, parts, classes=("red_fox", "Owl"), count=10):
    for number, part in enumerate(parts):
        for place, name in enumerate(classes):
            for index in range(count):
                image(root / part / name / f"{index}.jpg", 1000 * number + 100 * place + index)
    return root


def test_a_divided_folder_keeps_its_parts(tmp_path):
    task = Task.from_folder(make(tmp_path / "birds", ("train", "valid", "test"), count=3))
    assert task.name == "birds"
    assert task.classes == ("Owl", "red_fox")
    assert task.prompts() == ["a photo of a Owl.", "a photo of a red fox."]
    assert [len(split) for split in task.splits().values()] == [6, 6, 6]


@pytest.mark.parametrize("parts", [("Train", "Test"), ("TRAINING", "Validation", "testing")])
def test_splits_are_known_by_other_spellings_too(tmp_path, parts):
    task = Task.from_folder(make(tmp_path / "birds", parts, count=3))
    assert task.classes == ("Owl", "red_fox")
    assert [len(split) for split in task.splits().values()] == [6] * len(parts)
    whole = Task.for_testing(tmp_path / "birds")
    assert (whole.classes, len(whole.test)) == (task.classes, 6 * len(parts))


def test_a_train_is_also_a_thing_one_can_photograph(tmp_path):
    task = Task.from_folder(make(tmp_path, (".",), classes=("bus", "test", "train")), name="traffic")
    assert task.classes == ("bus", "test", "train")
    task = Task.from_folder(make(tmp_path / "two", (".",), classes=("test", "train")))
    assert task.classes == ("test", "train")


def test_two_folders_for_one_split_or_none_to_learn_from_are_refused(tmp_path):
    with pytest.raises(InputError, match="has the folders val and valid for the same split; keep one"):
        Task.from_folder(make(tmp_path / "a", ("train", "val", "valid"), count=1))
    with pytest.raises(InputError, match="has test, val but no folder train"):
        Task.from_folder(make(tmp_path / "b", ("test", "val"), count=1))


def test_train_alone_is_a_task_without_val_and_test(tmp_path):
    task = Task.from_folder(make(tmp_path, ("train",)), name="alone")
    assert set(task.splits()) == {"train"}


def test_an_undivided_folder_is_divided_by_class_and_seed(tmp_path):
    make(tmp_path / "pets", (".",))
    task = Task.from_folder(tmp_path / "pets")
    assert {name: len(split) for name, split in task.splits().items()} == {"train": 14, "val": 2, "test": 4}
    again = Task.from_folder(tmp_path / "pets")
    other = Task.from_folder(tmp_path / "pets", seed=1)
    places = [[each.train.where(i) for i in range(14)] for each in (task, again, other)]
    assert places[0] == places[1] != places[2]


def test_the_split_does_not_depend_on_where_the_folder_lies(tmp_path):
    first = Task.from_folder(make(tmp_path / "a" / "pets", (".",)))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    second = Task.from_folder(tmp_path / "b" / "pets")
    assert [first.test.where(i).split("/")[-2:] for i in range(4)] == [
        second.test.where(i).split("/")[-2:] for i in range(4)
    ]


def test_classes_can_be_renamed(tmp_path):
    make(tmp_path, (".",))
    task = Task.from_folder(tmp_path, name="zoo", class_names={"red_fox": "fox"})
    assert task.classes == ("Owl", "fox")
    with pytest.raises(InputError, match="class_names names 'wolf', which is no class folder"):
        Task.from_folder(tmp_path, name="zoo", class_names={"wolf": "dog"})


def test_files_that_are_no_images_and_hidden_ones_are_passed_over(tmp_path):
    make(tmp_path / "pets", (".",))
    (tmp_path / "pets" / "Owl" / "notes.txt").write_text("x")
    image(tmp_path / "pets" / ".trash" / "a.jpg", 5)
    task = Task.from_folder(tmp_path / "pets")
    assert sum(map(len, task.splits().values())) == 20


def test_photographs_of_telephones_are_not_passed_over(tmp_path):
    make(tmp_path / "pets", (".",))
    (tmp_path / "pets" / "Owl" / "IMG_1.HEIC").write_bytes(b"\0\0\0\x18ftypheic")
    shutil.copy(tmp_path / "pets" / "Owl" / "0.jpg", tmp_path / "pets" / "Owl" / "saved.jfif")
    task = Task.from_folder(tmp_path / "pets", val_fraction=0.0, test_fraction=0.0)
    places = {Path(task.train.where(index)).name: index for index in range(len(task.train))}
    assert task.train[places["saved.jfif"]].image.size
    with pytest.raises(InputError, match=r"IMG_1\.HEIC is in the format HEIC, .* converted to JPEG"):
        task.train[places["IMG_1.HEIC"]]


def test_a_class_without_training_images_is_refused(tmp_path):
    make(tmp_path, ("train", "test"), count=1)
    image(tmp_path / "test" / "Wolf" / "a.jpg", 77)
    with pytest.raises(InputError, match=r"test/Wolf is a class without training images; add .*train/Wolf"):
        Task.from_folder(tmp_path)
    shutil.rmtree(tmp_path / "test")
    (tmp_path / "train" / "Yak").mkdir()
    with pytest.raises(InputError, match=r"class 'Yak' of .* has no training images"):
        Task.from_folder(tmp_path)


@pytest.mark.parametrize("make_it", [lambda _: None, lambda path: path.mkdir()])
def test_a_folder_without_classes_is_refused(tmp_path, make_it):
    make_it(tmp_path / "empty")
    with pytest.raises(InputError, match=r"empty (is not a folder|has no class folders)"):
        Task.from_folder(tmp_path / "empty")


def test_fractions_must_leave_something(tmp_path):
    make(tmp_path, (".",))
    with pytest.raises(InputError, match="leave nothing to train on"):
        Task.from_folder(tmp_path, name="x", val_fraction=0.5, test_fraction=0.5)


def test_links_out_of_the_folder_are_refused(tmp_path):
    make(tmp_path / "pets", (".",))
    image(tmp_path / "secret.jpg", 3)
    (tmp_path / "pets" / "Owl" / "link.jpg").symlink_to(tmp_path / "secret.jpg")
    with pytest.raises(InputError, match=r"link\.jpg is a link that leads out"):
        Task.from_folder(tmp_path / "pets")


@pytest.mark.real
def test_a_real_folder(real_root):
    task = Task.from_folder(real_root / "intel_scenes", templates=("a photo of a {} scene.",))
    assert len(task.classes) == 6
    assert task.test[0].image.mode == "RGB"


def test_a_link_to_a_folder_below_a_class_is_refused(tmp_path):
    make(tmp_path / "pets", (".",))
    (tmp_path / "pets" / "Owl" / "again").symlink_to(tmp_path / "pets")
    with pytest.raises(InputError, match="again is a link to a folder"):
        Task.from_folder(tmp_path / "pets")


@pytest.mark.parametrize("parts", [(".",), ("train", "valid", "test"), ("test",), ("val", "test")])
def test_for_testing_every_image_counts(tmp_path, parts):
    task = Task.for_testing(make(tmp_path / "birds", parts, count=3))
    assert task.name == "birds"
    assert task.classes == ("Owl", "red_fox")
    assert (len(task.train), task.val, len(task.test)) == (0, None, 6 * len(parts))
    assert list(task.test.labels) == [0] * (3 * len(parts)) + [1] * (3 * len(parts))


def test_for_testing_a_class_may_be_called_test(tmp_path):
    task = Task.for_testing(make(tmp_path / "things", (".",), classes=("test", "quiz"), count=2))
    assert task.classes == ("quiz", "test")


def test_for_testing_something_must_be_there(tmp_path):
    with pytest.raises(InputError, match="has no class folders"):
        Task.for_testing(tmp_path)
    (tmp_path / "owl").mkdir()
    with pytest.raises(InputError, match="no image in them"):
        Task.for_testing(tmp_path)


def test_a_link_to_itself_and_folders_without_end_are_one_sentence(tmp_path):
    (tmp_path / "birds" / "crow").mkdir(parents=True)
    (tmp_path / "birds" / "crow" / "loop.png").symlink_to("loop.png")
    with pytest.raises(InputError, match=r"loop\.png"):
        list(Task.from_folder(tmp_path / "birds", val_fraction=0, test_fraction=0).train)
    (tmp_path / "birds" / "crow" / Path(*["x"] * 200)).mkdir(parents=True)
    with pytest.raises(InputError, match="deep in each other"):
        Task.from_folder(tmp_path / "birds")


def test_class_folders_without_images_are_refused(tmp_path):
    (tmp_path / "crow").mkdir()
    with pytest.raises(InputError, match="has class folders but no image in them"):
        Task.from_folder(tmp_path)
