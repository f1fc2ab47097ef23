"""Old file formats are read as plain data; whatever else is in a file is refused."""

import contextlib
import io
import os
import pickle
import struct
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.io import savemat

from dpw.data.readers.idx import read_idx
from dpw.data.readers.mat import read_mat
from dpw.data.readers.pickled import read_pickle
from dpw.errors import InputError
from tests.helpers.dataset_layouts import idx_file

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


class Hostile:
    def __reduce__(self):
        return os.system, ("echo hacked",)


@given(plain, st.integers(2, 5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_plain_data_is_read_as_pickle_reads_it(tmp_path, value, protocol):
    (tmp_path / "p").write_bytes(pickle.dumps({"x": value}, protocol=protocol))
    assert read_pickle(tmp_path / "p") == {"x": value}


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32])
def test_arrays_are_read_from_every_protocol(tmp_path, protocol, dtype):
    array = np.arange(12, dtype=dtype).reshape(3, 4)
    (tmp_path / "p").write_bytes(
        pickle.dumps({"data": array, "f": np.asfortranarray(array)}, protocol=protocol)
    )
    found = read_pickle(tmp_path / "p")
    assert found["data"].dtype == dtype
    assert np.array_equal(found["data"], array)
    assert np.array_equal(found["f"], array)


def test_the_pickles_of_python_2_are_read(tmp_path):
    content = (
        b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85"
        b"U\x01b\x87Rq\x05(K\x01K\x02K\x03\x86cnumpy\ndtype\nq\x06U\x02u1K\x00K\x01\x87Rq\x07(K\x03U\x01|NNN"
        b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x06\x00\x01\x02\xfd\xfe\xfftbu."
    )
    (tmp_path / "p").write_bytes(content)
    assert read_pickle(tmp_path / "p")["data"].tolist() == [[0, 1, 2], [253, 254, 255]]


@pytest.mark.parametrize(
    "value",
    [
        Hostile(),
        {"data": Hostile()},
        np.array([Hostile()], dtype=object),
        io.BytesIO,
        {1, 2},
        np.zeros(2, dtype=[("a", "i4")]),
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_everything_else_is_refused(tmp_path, capfd, value, protocol):
    (tmp_path / "p").write_bytes(pickle.dumps(value, protocol=protocol))
    with pytest.raises(InputError, match=r"is not plain data .*download the original"):
        read_pickle(tmp_path / "p")
    assert "hacked" not in capfd.readouterr().out


@given(st.binary(max_size=60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_give_data_or_one_sentence(tmp_path, content):
    (tmp_path / "p").write_bytes(content)
    try:
        read_pickle(tmp_path / "p")
    except InputError as error:
        assert str(tmp_path / "p") in str(error)


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_changed_array_pickle_never_does_harm(tmp_path, data):
    content = bytearray(pickle.dumps({"data": np.arange(6, dtype=np.uint8)}, protocol=2))
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "p").write_bytes(bytes(content))
    with contextlib.suppress(InputError):
        read_pickle(tmp_path / "p")


def test_idx_files_are_mapped(tmp_path):
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    idx_file(tmp_path / "i", array)
    assert isinstance(read_idx(tmp_path / "i"), np.memmap)
    assert np.array_equal(read_idx(tmp_path / "i"), array)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not an idx file"),
        (b"\x1f\x8b\x08\x00", "gunzip"),
        (b"\0\0\x0d\1" + struct.pack(">I", 1) + b"\0" * 4, "not an idx file of unsigned bytes"),
        (b"\0\0\x08\3\0\0", "ends inside its header"),
        (b"\0\0\x08\1" + struct.pack(">I", 9) + b"abc", "has 11 bytes but its header promises 17"),
    ],
)
def test_bad_idx_files_are_named(tmp_path, content, words):
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(InputError, match=f"bad.*{words}"):
        read_idx(tmp_path / "bad")


@pytest.mark.parametrize("compressed", [True, False])
def test_matlab_numbers_texts_cells_and_structs(tmp_path, compressed):
    records = np.empty((1, 2), dtype=[("class", object), ("fname", object)])
    records[0, 0] = (np.uint8(3), "00001.jpg")
    records[0, 1] = (np.uint16(196), "00002.jpg")
    content = {
        "labels": np.arange(300, dtype=np.float64).reshape(3, 100),
        "names": np.array([["Audi TTS"], ["BMW"]], dtype=object),
        "annotations": records,
        "text": "hello",
    }
    savemat(tmp_path / "m.mat", content, do_compression=compressed)
    found = read_mat(tmp_path / "m.mat")
    assert np.array_equal(found["labels"], content["labels"])
    assert (found["names"], found["text"]) == (["Audi TTS", "BMW"], "hello")
    assert [int(record["class"].ravel()[0]) for record in found["annotations"]] == [3, 196]
    assert found["annotations"][1]["fname"] == "00002.jpg"


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_a_damaged_matlab_file_gets_one_sentence(tmp_path, data):
    savemat(
        tmp_path / "m.mat", {"labels": np.arange(30, dtype=np.uint8)}, do_compression=data.draw(st.booleans())
    )
    content = bytearray((tmp_path / "m.mat").read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content)))]
    elif content:
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    (tmp_path / "m.mat").write_bytes(bytes(content))
    try:
        read_mat(tmp_path / "m.mat")
    except InputError as error:
        assert "m.mat" in str(error)


def test_a_matlab_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("dpw.data.readers.mat.UNPACKED_AT_MOST", 1000)
    body = zlib.compress(struct.pack("<II", 14, 1 << 20) + bytes(1 << 20))
    header = b"MATLAB 5.0".ljust(124) + b"\x00\x01IM"
    (tmp_path / "bomb.mat").write_bytes(header + struct.pack("<II", 15, len(body)) + body)
    with pytest.raises(InputError, match="damaged"):
        read_mat(tmp_path / "bomb.mat")
