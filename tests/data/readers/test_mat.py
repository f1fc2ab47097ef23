"""MATLAB files are read as plain data; damaged ones get one sentence."""

import struct
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.io import savemat

from dpw.data.readers.mat import read_mat
from dpw.errors import InputError


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
