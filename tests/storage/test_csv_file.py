"""A table that grows: complete lines count, others are cut off, and no cell is a formula."""

import csv
import os

import pytest

from dpw.errors import InputError, StorageError
from dpw.storage.csv_file import CsvFile, csv_cell, csv_line

HEADER = ("image", "class")


@pytest.mark.parametrize("text", ["=1+1", "+1+1", "-1+1", "@sum", "\tx"])
def test_no_cell_starts_a_formula(text):
    assert csv_cell(text) == f"'{text}"
    assert next(csv.reader([csv_line([text, 0.5])])) == [f"'{text}", "0.5"]


def test_words_and_numbers_stay_what_they_are():
    assert [csv_cell(value) for value in ("a.jpg", -0.5, None, "", "-", "-0.5")] == [
        "a.jpg",
        -0.5,
        None,
        "",
        "-",
        "-0.5",
    ]
    assert csv_line(['a\nb\r, "c"', 1]) == '"a\\nb\\r, ""c""",1\n'


def written(path, rows):
    table = CsvFile(path, HEADER)
    assert list(table.rows()) == []
    table.begin()
    for row in rows:
        table.add(row)
    return path


def test_rows_are_read_back_and_continued(tmp_path):
    path = written(tmp_path / "deep" / "t.csv", [("a.jpg", "cat"), ("ü\udce4.jpg", "dog")])
    table = CsvFile(path, HEADER)
    assert list(table.rows()) == [["a.jpg", "cat"], ["ü\udce4.jpg", "dog"]]
    table.begin()
    table.add(("b.jpg", "owl"))
    assert [row[0] for row in CsvFile(path, HEADER).rows()] == ["a.jpg", "ü\udce4.jpg", "b.jpg"]


@pytest.mark.parametrize("kept", range(1, 40))
def test_a_file_cut_off_anywhere_is_continued_from_its_last_whole_line(tmp_path, kept):
    path = written(tmp_path / "t.csv", [("a.jpg", "cat, grey"), ("b.jpg", "dog")])
    whole = path.read_bytes()
    path.write_bytes(whole[:kept])
    table = CsvFile(path, HEADER)
    done = len(list(table.rows()))
    table.begin()
    for row in [("a.jpg", "cat, grey"), ("b.jpg", "dog")][done:]:
        table.add(row)
    assert path.read_bytes() == whole


def test_another_table_is_refused_and_left_alone(tmp_path):
    (tmp_path / "t.csv").write_text("name,price\nx,1\n")
    with pytest.raises(InputError, match="is another table"):
        list(CsvFile(tmp_path / "t.csv", HEADER).rows())
    assert (tmp_path / "t.csv").read_text() == "name,price\nx,1\n"
    (tmp_path / "u.csv").write_text("image,class\na.jpg\n")
    with pytest.raises(InputError, match=r"line 2 of .* has 1 cells instead of 2"):
        list(CsvFile(tmp_path / "u.csv", HEADER).rows())


def test_what_cannot_be_written_is_a_sentence(tmp_path):
    with pytest.raises(StorageError, match="Is a directory"):
        list(CsvFile(tmp_path, HEADER).rows())
    (tmp_path / "file").write_text("")
    table = CsvFile(tmp_path / "file" / "t.csv", HEADER)
    with pytest.raises(StorageError, match="cannot use"):
        table.begin()


def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(StorageError, match="is a pipe or a device"):
        list(CsvFile(tmp_path / "pipe.csv", ["a"]).rows())
