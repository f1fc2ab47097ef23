"""A CSV or Parquet table of paths and labels is a task."""

import csv

import pyarrow
import pyarrow.parquet
import pytest

from dpw.data.task import Task
from dpw.errors import InputError
from tests.helpers.dataset_layouts import image

ROWS = [
    {"path": f"images/{number}.png", "label": "cat" if number % 2 else "dog", "split": split}
    for number, split in enumerate(["train"] * 6 + ["val"] * 2 + ["test"] * 2)
]


def write(folder, rows, suffix="csv"):
    for number, row in enumerate(rows):
        if ".." not in str(row["path"]) and not str(row["path"]).startswith("/"):
            image(folder / row["path"], number)
    path = folder / f"animals.{suffix}"
    if suffix == "csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def without_split(rows):
    return [{key: value for key, value in row.items() if key != "split"} for row in rows]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_with_splits(tmp_path, suffix):
    task = Task.from_table(write(tmp_path, ROWS, suffix))
    assert (task.name, task.classes) == ("animals", ("cat", "dog"))
    assert {name: len(split) for name, split in task.splits().items()} == {"train": 6, "val": 2, "test": 2}
    assert task.classes[task.train.labels[0]] == "dog"
    assert task.train[0].image.mode == "RGB"


def test_a_table_without_splits_is_divided_by_a_seed(tmp_path):
    task = Task.from_table(write(tmp_path, without_split(ROWS)), test_fraction=0.4, val_fraction=0)
    assert {name: len(split) for name, split in task.splits().items()} == {"train": 6, "test": 4}


def test_columns_and_root_can_be_chosen(tmp_path):
    rows = [{"path": row["path"], "kind": row["label"], "split": row["split"]} for row in ROWS]
    path = write(tmp_path, rows).rename(tmp_path / "images" / "t.csv")
    task = Task.from_table(path, label_column="kind", root=tmp_path)
    assert task.classes == ("cat", "dog")


def test_numbers_are_positions_in_the_classes_given(tmp_path):
    rows = [row | {"label": 1 if row["label"] == "cat" else 0} for row in ROWS]
    assert Task.from_table(write(tmp_path, rows, "parquet")).classes == ("0", "1")
    named = Task.from_table(tmp_path / "animals.parquet", classes=["dog", "cat"])
    assert named.prompts() == ["a photo of a dog.", "a photo of a cat."]
    with pytest.raises(InputError, match=r"row 2 of .* has label '1', outside the 1 classes"):
        Task.from_table(tmp_path / "animals.parquet", classes=["dog"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"path": "../secret.png"}, r"row 1 of .* names '\.\./secret\.png', which leads out of"),
        ({"path": "/etc/passwd"}, "leads out of"),
        ({"split": "holdout"}, "row 1 of .* has split 'holdout'; write train, val or test"),
        ({"path": "images/1.png"}, r"1\.png is twice in train"),
    ],
)
def test_bad_rows_are_named(tmp_path, change, words):
    path = write(tmp_path, [ROWS[0] | change, *ROWS[1:]])
    with pytest.raises(InputError, match=words):
        Task.from_table(path)


def test_an_absent_image_is_named(tmp_path):
    path = write(tmp_path, ROWS)
    (tmp_path / "images" / "3.png").unlink()
    with pytest.raises(InputError, match=r"row 4 of .*3\.png, which does not exist"):
        Task.from_table(path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", b"", "has no rows"),
        ("a.csv", b"path,label\n", "has no rows"),
        ("a.csv", b"image,label\nx,y\n", "has no column 'path' among image, label"),
        ("a.csv", b"path,label\nonly\n", "row 1 of .* another number of fields"),
        ("a.csv", b"\xff\xfe\x00", "not a readable CSV"),
        ("a.parquet", b"no parquet", "not a readable Parquet"),
        ("a.txt", b"x", r"no \.csv or \.parquet"),
    ],
)
def test_bad_tables_get_one_sentence(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=words):
        Task.from_table(tmp_path / name)


def test_an_absent_table_is_named(tmp_path):
    with pytest.raises(InputError, match=r"gone\.csv is not a file"):
        Task.from_table(tmp_path / "gone.csv")


def test_a_path_with_a_zero_byte_is_one_sentence(tmp_path):
    (tmp_path / "t.csv").write_text("path,label\na\0b/c.png,x\n")
    with pytest.raises(InputError, match="leads out"):
        Task.from_table(tmp_path / "t.csv")
