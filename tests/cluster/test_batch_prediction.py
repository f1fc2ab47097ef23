"""Shards of images: one row for each image, errors kept, and a second call does only what is missing."""

import json
import os
import pickle
import shutil
from dataclasses import asdict, replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpw.cluster import batch_prediction
from dpw.cluster.batch_prediction import Answering, Question, answer, prepare, shards
from dpw.errors import InputError
from dpw.storage.model_json import remove_task


def answered(source, question, target, size=10):
    """Answer what is left in this process; gives the shards that were."""
    left = prepare(str(source), question, target, size)
    for shard in left:
        answer(shard, question, target)
    return left


@pytest.fixture
def photos(toy, tmp_path):
    """Twelve images and one that is none."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for number, path in enumerate(sorted((toy / "data" / "birds" / "test").rglob("*.png"))):
        (folder / f"{number:02d}.png").write_bytes(path.read_bytes())
    (folder / "05.png").write_bytes(b"no image")
    return folder


def test_a_folder_has_one_row_for_each_image(saved, photos, tmp_path):
    model, folder = saved
    answered(photos, Question(str(folder)), tmp_path / "out.parquet", size=5)
    rows = pq.read_table(tmp_path / "out.parquet").to_pylist()
    names = sorted(str(path) for path in photos.iterdir())
    assert [row["image"] for row in rows] == names
    wrong = [row for row in rows if row["error"]]
    assert [row["image"] for row in wrong] == [str(photos / "05.png")]
    expected = model.predict(names[0], top=1)
    assert rows[0]["class"] == expected.label and rows[0]["probability"] == pytest.approx(
        expected.probability
    )


def test_a_second_call_answers_only_what_is_missing(saved, photos, tmp_path):
    question, target = Question(str(saved[1])), tmp_path / "out.parquet"
    assert len(answered(photos, question, target, size=5)) == 3
    (target / "part-000001.parquet").unlink()
    assert [shard.number for shard in answered(photos, question, target, size=5)] == [1]
    with pytest.raises(InputError, match="another question"):
        prepare(str(photos), Question(str(saved[1]), top=2), target, 5)
    (photos / "99.png").write_bytes(b"")
    with pytest.raises(InputError, match="other images"):
        prepare(str(photos), question, target, 5)


@pytest.mark.parametrize("struct", [True, False], ids=["datasets", "bytes"])
def test_a_table_of_images_is_read_group_by_group(saved, photos, tmp_path, struct):
    content = [path.read_bytes() for path in sorted(photos.iterdir())]
    images = [{"bytes": one, "path": None} for one in content] if struct else content
    table = pa.table({"image": images, "path": [f"n{number}" for number in range(len(content))]})
    pq.write_table(table, tmp_path / "images.parquet", row_group_size=4)
    assert [shard.count for shard in shards(str(tmp_path / "images.parquet"), 5)] == [5, 5, 2]
    answered(tmp_path / "images.parquet", Question(str(saved[1])), tmp_path / "out", size=5)
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert [row["image"] for row in rows] == [f"n{number}" for number in range(12)]
    assert [number for number, row in enumerate(rows) if row["error"]] == [5]


def test_a_bucket_is_read_by_its_address(saved, photos, tmp_path):
    answered(f"file://{photos}", Question(str(saved[1])), tmp_path / "out")
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert len(rows) == 12 and sum(row["error"] is not None for row in rows) == 1
    assert rows[0]["image"].startswith("file://")


def test_a_file_of_a_bucket_that_cannot_be_fetched_says_so(saved, photos, tmp_path):
    question, source = Question(str(saved[1])), f"file://{photos}"
    left = prepare(source, question, tmp_path / "out")
    (photos / "03.png").unlink()
    answer(left[0], question, tmp_path / "out")
    wrong = {
        row["image"]: row["error"] for row in pq.read_table(tmp_path / "out").to_pylist() if row["error"]
    }
    assert sorted(wrong) == [f"{source}/03.png", f"{source}/05.png"]
    assert all(name in sentence for name, sentence in wrong.items()), wrong


def test_a_worker_gets_the_names_of_its_own_shard_alone(saved, photos, tmp_path):
    question, target = Question(str(saved[1])), tmp_path / "out"
    left = prepare(str(photos), question, target, 5)
    worker = Answering(question, target)
    assert len(pickle.dumps(worker)) < 1000, "whatever the number of images"
    assert worker({"shard": json.dumps(asdict(left[2]))})["images"] == 2
    gone = asdict(replace(left[2], names=(), table=str(tmp_path / "gone.parquet"), stop=3))
    found = worker({"shard": json.dumps(gone)})
    assert "there is no" in found["sentence"], "a mistake comes back as a value"


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("nowhere.parquet", "there is no"),
        ("nonsense://b/x", "cannot be opened"),
        ("file:///nowhere/at/all", "cannot be opened"),
        ("broken.parquet", "cannot be opened"),
    ],
)
def test_what_is_not_there_is_one_sentence(saved, tmp_path, source, sentence):
    (tmp_path / "broken.parquet").write_bytes(b"no table")
    given = source if "://" in source else str(tmp_path / source)
    with pytest.raises(InputError, match=sentence) as raised:
        prepare(given, Question(str(saved[1])), tmp_path / "out")
    assert "\n" not in str(raised.value)


def test_answers_of_two_models_are_not_mixed(saved, photos, tmp_path):
    folder = shutil.copytree(saved[1], tmp_path / "model")
    asked = Question(str(folder))
    assert prepare(str(photos), asked, tmp_path / "to")
    remove_task(folder, "metals")
    batch_prediction._learner.cache_clear()
    with pytest.raises(InputError, match="another model"):
        prepare(str(photos), asked, tmp_path / "to")


def test_a_damaged_table_and_names_that_are_no_text(saved, photos, tmp_path):
    table = tmp_path / "t.parquet"
    table.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(InputError, match=r"t\.parquet cannot be opened"):
        shards(str(table))
    folder = tmp_path / "odd"
    folder.mkdir()
    odd = os.path.join(os.fsencode(folder), b"\xff.png")  # noqa: PTH118
    shutil.copy(next(photos.rglob("*.png")), odd)
    asked = Question(str(saved[1]))
    (shard,) = prepare(str(folder), asked, tmp_path / "to")
    assert answer(shard, asked, tmp_path / "to")["failed"] == 0
    assert pq.read_table(tmp_path / "to" / shard.file)["image"][0].as_py().endswith("\\udcff.png")


def test_a_table_without_images_and_a_foreign_target_are_refused(saved, photos, tmp_path):
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "words.parquet")
    with pytest.raises(InputError, match="one must be called image"):
        answered(tmp_path / "words.parquet", Question(str(saved[1])), tmp_path / "out")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="no folder of predictions"):
        prepare(str(photos), Question(str(saved[1])), tmp_path / "mine")
