"""Pickles are read as plain data; whatever else is in a file is refused."""

import contextlib
import io
import os
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpw.data.readers.pickled import read_pickle
from dpw.errors import InputError

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
