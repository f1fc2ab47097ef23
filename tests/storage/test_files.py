"""Files are whole or absent, and every change of a byte is noticed."""

import errno
import json
import os
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpw.errors import DamagedFileError, InputError, StorageError
from dpw.storage import files
from tests.helpers.checks import nonempty

CONTENT = {"format": files.FORMAT, "kind": "test", "name": "Zürich", "values": [1, 2.5, None]}
TENSORS = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor([1, 2, 3])}
quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def test_json_round_trip(tmp_path):
    files.write_json(tmp_path / "x.json", CONTENT)
    assert files.read_json(tmp_path / "x.json", "test") == CONTENT


@quick
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_changed_byte_of_json_is_noticed_or_means_the_same(tmp_path, place, change):
    path = tmp_path / "x.json"
    files.write_json(path, CONTENT)
    content = bytearray(path.read_bytes())
    content[place % len(content)] ^= change
    path.write_bytes(bytes(content))
    try:
        assert files.read_json(path, "test") == CONTENT  # white space between values
    except DamagedFileError as error:
        assert "x.json" in str(error)


@quick
@given(st.integers(0, 10**6))
def test_truncation_at_any_length_is_noticed(tmp_path, length):
    entry = files.write_tensors(tmp_path, "t", TENSORS)
    path = tmp_path / entry["file"]
    whole = path.read_bytes()
    path.write_bytes(whole[: length % len(whole)])
    with pytest.raises(DamagedFileError, match=path.name):
        files.read_tensors(tmp_path, entry)
    path.write_bytes(whole)


@quick
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_changed_byte_of_tensors_is_noticed(tmp_path, place, change):
    entry = files.write_tensors(tmp_path, "t", TENSORS)
    path = tmp_path / entry["file"]
    whole = path.read_bytes()
    content = bytearray(whole)
    content[place % len(content)] ^= change
    path.write_bytes(bytes(content))
    with pytest.raises(DamagedFileError, match="SHA-256"):
        files.read_tensors(tmp_path, entry)
    path.write_bytes(whole)


def test_equal_tensors_are_written_once_and_read_back(tmp_path):
    first = files.write_tensors(tmp_path, "my task/1", TENSORS)
    assert first == files.write_tensors(tmp_path, "my task/1", TENSORS)
    assert first["file"].startswith("my-task-1-")
    assert len(list(tmp_path.iterdir())) == 1
    back = files.read_tensors(tmp_path, first)
    assert all(torch.equal(back[name], tensor) for name, tensor in nonempty(TENSORS.items()))


@pytest.mark.parametrize("name", ["../x-0123456789abcdef.safetensors", "/etc/passwd", "x.pt", None, 7])
def test_names_that_lead_out_are_refused(tmp_path, name):
    with pytest.raises(DamagedFileError, match="refused"):
        files.read_tensors(tmp_path, {"file": name, "sha256": "", "bytes": 0})


@pytest.mark.parametrize(
    ("number", "told"),
    [(errno.ENOSPC, "disk is full"), (errno.EACCES, "read-only"), (errno.EROFS, "read-only")],
)
def test_a_failed_write_leaves_the_old_file_and_no_rest(tmp_path, monkeypatch, number, told):
    path = tmp_path / "x.json"
    files.write_json(path, CONTENT)

    def fail(_):
        raise OSError(number, "no")

    monkeypatch.setattr(files.os, "fsync", fail)
    with pytest.raises(StorageError, match=told) as caught:
        files.write_json(path, {**CONTENT, "name": "other"})
    assert isinstance(caught.value, OSError)
    assert not isinstance(caught.value, ValueError)
    assert caught.value.errno == number
    monkeypatch.undo()
    assert files.read_json(path, "test") == CONTENT
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_is_not_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "out.csv")
    with pytest.raises(StorageError, match="pipe or a device"):
        files.write_bytes(tmp_path / "out.csv", b"x")
    assert (tmp_path / "out.csv").is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_only_a_file_with_the_mark_may_be_replaced(tmp_path):
    own, empty, other = (tmp_path / name for name in ("own", "empty", "other"))
    own.write_bytes(b"something, by dpw, and more")
    empty.touch()
    other.write_bytes(b"a diary")
    for path in (own, empty, tmp_path / "new", tmp_path / "new" / "newer"):
        files.refuse_foreign_file(path, b"by dpw")
    for path in (other, tmp_path):
        with pytest.raises(InputError, match="is there already"):
            files.refuse_foreign_file(path, b"by dpw")
    with pytest.raises(StorageError, match="cannot be written to"):
        files.refuse_foreign_file(other / "below", b"by dpw")


def test_an_endless_json_is_refused_without_reading_it(tmp_path):
    path = tmp_path / "model.json"
    with path.open("wb") as file:
        file.truncate(3 << 30)
    with pytest.raises(DamagedFileError, match="more than 64 MB"):
        files.read_json(path, "dpw model")


def test_a_poisonous_object_leaves_no_file(tmp_path):
    with pytest.raises(TypeError):
        files.write_json(tmp_path / "x.json", {"format": 1, "bad": object()})
    assert not list(tmp_path.iterdir())


def test_another_format_is_refused(tmp_path):
    Path(tmp_path / "x.json").write_text(json.dumps({"format": 99, "checksum": "0"}))
    with pytest.raises(DamagedFileError, match="format 99"):
        files.read_json(tmp_path / "x.json", "test")


def test_a_disk_without_room_is_refused_before_the_training(tmp_path):
    files.refuse_without_room(tmp_path / "not" / "there", 1)
    with pytest.raises(StorageError, match="has room for") as caught:
        files.refuse_without_room(tmp_path, 10**18)
    assert caught.value.errno == errno.ENOSPC
