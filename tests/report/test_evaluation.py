"""The page, the table and the text about one folder show the numbers that were measured."""

import csv
import dataclasses
import io

import pytest

from dpw.engine.scoring import Confusion
from dpw.errors import InputError
from dpw.report.evaluation import as_text, draw_confusion, images_csv, write_evaluation
from tests.helpers.report_reader import read_report


@pytest.fixture(scope="module")
def score(saved, toy):
    return saved[0].evaluate_folder(toy / "data" / "birds", strangers=toy / "data" / "signs")


def test_the_page_is_alone_and_complete(score, tmp_path):
    page = write_evaluation(score, tmp_path / "birds.html")
    seen = read_report(page)
    assert seen.figures == ["confusion", "reliability", "typicality"]
    assert {"summary", "tasks", "classes", "mistakes", "calibration", "strangers"} == set(seen.tables)
    for reference in seen.references:
        assert reference.startswith(("#", "data:")) or (tmp_path / reference).is_file(), reference
    right = seen.tables["summary"][1][4][1]
    assert right == score.overall.accuracy
    assert [row[2][1] for row in seen.tables["classes"][1:]] == [one.accuracy for one in score.classes]
    assert seen.tables["strangers"][1][2][1] == score.rejection.auroc
    files = {path.name for path in (tmp_path / "birds_files").iterdir()}
    assert {"confusion.png", "reliability.svg", "typicality.png", "confusion.csv", "classes.csv"} <= files


def test_a_page_must_be_html(score, tmp_path):
    with pytest.raises(InputError, match=r"does not end in \.html"):
        write_evaluation(score, tmp_path / "page.pdf")


def test_every_image_is_a_line(score):
    rows = list(csv.DictReader(io.StringIO(images_csv(score))))
    assert len(rows) == 45
    assert sum(row["right"] == "1" for row in rows) == pytest.approx(0.45 * score.overall.accuracy)
    assert float(rows[0]["probability"]) == score.images[0].probability
    named = dataclasses.replace(score.images[0], truth="=cmd()", error="-x")
    (row,) = csv.DictReader(io.StringIO(images_csv(dataclasses.replace(score, images=(named,)))))
    assert (row["class"], row["error"]) == ("'=cmd()", "'-x")


def test_the_text_has_all_tables(score):
    text = as_text(score)
    for word in ("Right, %", "Task found, %", "crow", "AUROC, %", f"{score.overall.accuracy:.1f}"):
        assert word in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_a_narrow_terminal_gets_the_summary_upright(score):
    lines = as_text(score, 60).splitlines()
    assert f"Right, %       {score.overall.accuracy:.1f}" in lines
    wide = [line for line in lines if len(line) > 60 and not line.startswith(("Folder", "Strangers"))]
    assert wide == [line for line in as_text(score).splitlines() if line in wide]  # tables of many rows


@pytest.mark.parametrize("count", [2, 40, 100])
def test_the_confusion_matrix_can_be_drawn_for_many_classes(score, count):
    names = tuple(f"class {number}" for number in range(count))
    rows = tuple(tuple(int(a == b) for b in range(count)) for a in range(count))
    figure = draw_confusion(dataclasses.replace(score, confusion=Confusion(names, names, rows)))
    axis = figure.axes[0]
    assert len(axis.texts) == (count**2 if count <= 30 else 0)
    assert max(figure.get_size_inches()) <= 12
