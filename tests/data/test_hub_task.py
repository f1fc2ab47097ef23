"""A Hugging Face dataset, here as a local copy, is a task."""

import io

import datasets
import numpy as np
import pytest
from PIL import Image

from dpw.data.task import Task
from dpw.errors import InputError
from tests.helpers.dataset_layouts import image


def encoded(seed, size=8):
    file = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, "PNG")
    return {"bytes": file.getvalue(), "path": None}


def part(count, offset=0, label_feature=None, column="image"):
    features = datasets.Features(
        {column: datasets.Image(), "label": label_feature or datasets.ClassLabel(names=["cat", "red_dog"])}
    )
    labels = [number % 2 for number in range(count)]
    if isinstance(label_feature, datasets.Value):
        labels = [("dog", "cat")[label] for label in labels]
    rows = {column: [encoded(offset + number) for number in range(count)], "label": labels}
    return datasets.Dataset.from_dict(rows, features=features)


def saved(path, **parts):
    datasets.DatasetDict(parts).save_to_disk(path)
    return path


@pytest.fixture(autouse=True)
def quiet():
    datasets.disable_progress_bars()


def test_a_saved_dataset_keeps_its_splits_and_names(tmp_path):
    task = Task.from_dataset(saved(tmp_path / "pets", train=part(6), test=part(2, 50)), templates=("a {}",))
    assert (task.name, task.classes) == ("pets", ("cat", "red_dog"))
    assert task.prompts() == ["a cat", "a red dog"]
    assert (len(task.train), task.val, len(task.test)) == (6, None, 2)
    assert task.train[3].image.size == (8, 8)
    assert task.train.where(3) == "pets/train[3]"


def test_without_a_test_split_train_is_divided(tmp_path):
    task = Task.from_dataset(saved(tmp_path / "pets", train=part(20)))
    assert {name: len(split) for name, split in task.splits().items()} == {"train": 14, "val": 2, "test": 4}


def test_words_as_labels_and_other_columns(tmp_path):
    words = datasets.Value("string")
    folder = saved(
        tmp_path / "pets", train=part(6, 0, words, "photo"), validation=part(2, 30, words, "photo")
    )
    task = Task.from_dataset(
        folder, image_column="photo", test_split="validation", class_names={"dog": "hound"}
    )
    assert task.classes == ("cat", "hound")
    assert list(task.test.labels) == [1, 0]


def test_keys_follow_the_content(tmp_path):
    task = Task.from_dataset(saved(tmp_path / "pets", train=part(4), test=part(4)))
    assert task.train.key(1) == task.test.key(1) != task.test.key(2)


def test_a_folder_of_parquet_files(tmp_path):
    (tmp_path / "pets").mkdir()
    part(4).to_parquet(tmp_path / "pets" / "train.parquet")
    part(2, 9).to_parquet(tmp_path / "pets" / "test.parquet")
    task = Task.from_dataset(tmp_path / "pets", cache_folder=tmp_path / "cache")
    assert (len(task.train), len(task.test), task.classes) == (4, 2, ("cat", "red_dog"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"image_column": "photo"}, "has no column 'photo' among image, label"),
        ({"train_split": "training"}, "has no split 'training' among train"),
        ({"val_split": "dev"}, "has no split 'dev'"),
    ],
)
def test_wrong_choices_are_answered_with_what_there_is(tmp_path, options, words):
    folder = saved(tmp_path / "pets", train=part(4))
    with pytest.raises(InputError, match=words):
        Task.from_dataset(folder, **options)


def test_a_damaged_image_is_named_by_its_row(tmp_path):
    rows = {"image": [{"bytes": b"no image", "path": None}, encoded(1)], "label": [0, 1]}
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])})
    broken = datasets.Dataset.from_dict(rows, features=features)
    task = Task.from_dataset(saved(tmp_path / "pets", train=broken, test=part(2)))
    with pytest.raises(InputError, match=r"pets/train\[0\] is not an image"):
        task.train[0]


def test_a_row_that_names_a_file_elsewhere_is_refused(tmp_path):
    image(tmp_path / "secret.png", 1)
    rows = {"image": [{"bytes": None, "path": str(tmp_path / "secret.png")}] * 2, "label": [0, 1]}
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])})
    outside = datasets.Dataset.from_dict(rows, features=features)
    datasets.DatasetDict({"train": outside}).save_to_disk(tmp_path / "pets")
    task = Task.from_dataset(tmp_path / "pets", test_split=None, test_fraction=0, val_fraction=0)
    try:
        assert task.train[0].image.mode == "RGB", "saving may have embedded the file"
    except InputError as error:
        assert "outside" in str(error)


def test_a_folder_that_is_no_dataset_gets_one_sentence(tmp_path):
    (tmp_path / "pets").mkdir()
    with pytest.raises(InputError, match="cannot be loaded") as caught:
        Task.from_dataset(tmp_path / "pets")
    assert "\n" not in str(caught.value)


CARDS = [
    "configs:\n- config_name: default\n  data_files: ../outside.csv",
    "configs:\n- config_name: default\n  data_files:\n  - split: train\n    path: /etc/passwd",
    "configs:\n- config_name: default\n  data_dir: ../..",
    "configs:\n- config_name: default\n  data_files: https://example.org/x.csv",
    "configs:\n- config_name: default\n  data_files: 'file:/etc/passwd'",
    "# ---\nconfigs:\n- config_name: default\n  data_files: ../outside.csv",
]


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("card", CARDS)
def test_a_card_that_names_files_outside_is_refused(tmp_path, card):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "README.md").write_text(f"---\n{card}\n---\nA dataset.\n")
    (tmp_path / "data" / "train.csv").write_text("image,label\na.png,a\n")
    with pytest.raises(InputError, match="outside its folder"):
        Task.from_dataset(tmp_path / "data")


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("name", [".huggingface.yaml", "README.md"])
def test_a_card_in_another_place_or_after_blank_lines_is_read_too(tmp_path, name):
    text = CARDS[0] if name.endswith("yaml") else f"\n\n---\n{CARDS[0]}\n---\n"
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match="outside its folder"):
        Task.from_dataset(tmp_path)


def test_a_link_that_leads_out_of_a_dataset_is_refused(tmp_path):
    (tmp_path / "secret.csv").write_text("image,label\na.png,a\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.csv").symlink_to(tmp_path / "secret.csv")
    with pytest.raises(InputError, match="is a link that leads out"):
        Task.from_dataset(tmp_path / "data")


def test_a_state_that_names_files_outside_is_refused(tmp_path):
    (tmp_path / "state.json").write_text('{"_data_files": [{"filename": "../../secret.arrow"}]}')
    (tmp_path / "dataset_info.json").write_text("{}")
    with pytest.raises(InputError, match="outside its folder"):
        Task.from_dataset(tmp_path)


@pytest.mark.usefixtures("no_network")
def test_a_mistyped_name_in_a_benchmark_file_does_not_reach_the_network(tmp_path, monkeypatch):
    import datasets
    from huggingface_hub import constants

    from dpw.benchmarks import load_benchmark

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    (tmp_path / "b.yaml").write_text("tasks:\n  - dataset: mistyped/folder\n")
    with pytest.raises(InputError, match="allow_download"):
        load_benchmark(tmp_path / "b.yaml").describe()
    assert not constants.HF_HUB_OFFLINE
