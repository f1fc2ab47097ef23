"""idx files are mapped, and bad ones named."""

import struct

import numpy as np
import pytest

from dpw.data.readers.idx import read_idx
from dpw.errors import InputError
from tests.helpers.dataset_layouts import idx_file


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
