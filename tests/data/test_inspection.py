"""A check collects everything that is wrong with a dataset."""

import json
import shutil

from dpw.data.inspection import check_dataset
from tests.helpers.checks import nonempty
from tests.helpers.dataset_layouts import BUILDERS, image


def test_a_complete_subset_is_usable(data_root):
    for name in nonempty(BUILDERS):
        report = check_dataset(name, data_root, decode=True, subset=True)
        assert report.usable, report.problems


def test_other_numbers_than_the_official_ones_are_problems(data_root):
    report = check_dataset("mnist", data_root)
    assert not report.usable
    assert report.counts == {"classes": 10, "train": 40, "val": 10, "test": 20}
    assert report.problems[0].endswith(
        "has 40 train images instead of 48000; complete the dataset, or accept a subset with --subset"
    )


def test_a_missing_dataset_is_not_found(tmp_path):
    report = check_dataset("food", tmp_path)
    assert (report.found, report.usable) == (False, False)
    assert "dpw data get food" in report.problems[0]


def test_all_problems_are_collected(tmp_path):
    BUILDERS["dtd"](tmp_path)
    folder = tmp_path / "dtd"
    banded = folder / "images" / "banded"
    (banded / "banded_0001.jpg").write_bytes(b"")
    whole = (banded / "banded_0002.jpg").read_bytes()
    (banded / "banded_0002.jpg").write_bytes(whole[:-100])
    (banded / "banded_0003.jpg").unlink()
    shutil.copy(banded / "banded_0004.jpg", banded / "banded_0006.jpg")
    path = folder / "split_zhou_DescribableTextures.json"
    content = json.loads(path.read_text())
    content["train"].append(["../../secret.jpg", 0, "banded"])
    content["val"].append(content["train"][4])
    path.write_text(json.dumps(content))
    problems = check_dataset("dtd", tmp_path, decode=True, subset=True).problems
    expected = (
        "leads out of",
        "banded_0003.jpg, which does not exist",
        "is in train and val",
        "banded_0001.jpg is an empty file",
        "banded_0002.jpg cannot be decoded",
        "has the same content as",
    )
    for words in expected:
        assert sum(words in problem for problem in problems) == 1, (words, problems)
    assert len(problems) == len(expected)


def test_a_report_is_json(data_root):
    report = check_dataset("dtd", data_root, protocol="zscl").as_json()
    assert json.loads(json.dumps(report)) == report
    assert report["expected"]["val"] is None


def test_a_class_too_many_is_counted(tmp_path):
    BUILDERS["eurosat"](tmp_path)
    image(tmp_path / "eurosat" / "2750" / "River" / "River_1.jpg", 1)
    assert check_dataset("eurosat", tmp_path, subset=True, protocol="zscl").counts["classes"] == 4


def test_every_label_out_of_range_is_reported(tmp_path):
    BUILDERS["mnist"](tmp_path)
    path = tmp_path / "mnist" / "t10k-labels-idx1-ubyte"
    content = bytearray(path.read_bytes())
    content[-1], content[-2] = 77, 99
    path.write_bytes(bytes(content))
    problems = check_dataset("mnist", tmp_path, subset=True).problems
    assert ["label 77" in problems[0], "label 99" in problems[1]] == [True, True]
    assert "mnist/test[19]" in problems[0]
