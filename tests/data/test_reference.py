"""Reference data: folders, captions, saved datasets, pairs, and rows that need no history."""

import csv

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dpw.data.pixels import PixelCache
from dpw.data.reference import (
    PROMPTS_FILE,
    Pairs,
    ReferenceData,
    ShuffledRows,
    pixels_of,
    read_pairs,
    read_sentences,
    reference_images,
    reference_pairs,
    reference_sentences,
    sentence_tokens,
)
from dpw.errors import InputError
from tests.helpers.tiny_clip import tiny_backbone
from tests.helpers.toy_methods import toy_split, toy_task

NOTHING = ReferenceData()
TASK = toy_task("dtd")


def write_images(folder, names):
    folder.mkdir(parents=True, exist_ok=True)
    for shade, name in enumerate(names):
        (folder / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (20, 20), (shade * 10, 0, 0)).save(folder / name)
    return folder


def test_images_come_from_the_task_a_folder_or_the_program(tmp_path):
    write_images(tmp_path / "outside", ["b.png", "a.png", "more/c.png"])
    found = reference_images(str(tmp_path / "outside"), NOTHING, TASK, "zscl")
    assert [found.where(row).rsplit("/", 1)[-1] for row in range(3)] == ["a.png", "b.png", "c.png"]
    assert reference_images("task", NOTHING, TASK, "lwf") is TASK.train
    given_images = ReferenceData(images=toy_split(2, 4, 1))
    assert reference_images(None, given_images, TASK, "zscl") is given_images.images


def test_a_saved_dataset_gives_images_and_sentences(tmp_path):
    datasets = pytest.importorskip("datasets")
    pictures = [Image.new("RGB", (20, 20), (shade, 0, 0)) for shade in (10, 200)]
    rows = datasets.Dataset.from_dict(
        {"caption": ["one", "two"], "img": pictures},
        features=datasets.Features({"caption": datasets.Value("string"), "img": datasets.Image()}),
    )
    rows.save_to_disk(tmp_path / "saved")
    found = reference_images(str(tmp_path / "saved"), NOTHING, TASK, "zscl")
    assert [np.asarray(sample.image)[0, 0, 0] for sample in found] == [10, 200]
    assert read_sentences(tmp_path / "saved") == ("one", "two")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain.txt", "a cat\n\n a dog \n"),
        ("table.csv", 'id,caption\n1,a cat\n2,"a dog"\n'),
        ("conceptual.tsv", "a cat\thttp://one\na dog\thttp://two\n"),
        ("rows.jsonl", '{"text": "a cat"}\n{"text": "a dog"}\n'),
        ("zscl.csv", "title\tfilepath\na cat\tone.jpg\na dog\ttwo.jpg\n"),
        ("upper.csv", "Title,Path\na cat,one.jpg\na dog,two.jpg\n"),
        ("spreadsheet.csv", "\ufefffile;caption\none.jpg;a cat\ntwo.jpg;a dog\n"),
        ("marked.txt", "\ufeffa cat\na dog\n"),
        ("alone.csv", "a cat\na dog\n"),
        ("files.csv", "a cat,one.jpg\na dog,two.PNG\n"),
    ],
)
def test_sentences_of_every_kind_of_file(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert reference_sentences(str(tmp_path / name), NOTHING, TASK, "zscl") == ("a cat", "a dog")


def test_a_quote_in_a_tsv_is_a_letter(tmp_path):
    (tmp_path / "quotes.tsv").write_text('"a cat" she said\thttp://one\n"a\thttp://two\ndog\thttp://three\n')
    assert read_sentences(tmp_path / "quotes.tsv") == ('"a cat" she said', '"a', "dog")


def test_a_quoted_line_break_in_a_csv_belongs_to_the_sentence(tmp_path):
    (tmp_path / "lines.csv").write_text('caption,file\n"a cat\nasleep",1.jpg\na dog,2.jpg\n')
    assert read_sentences(tmp_path / "lines.csv") == ("a cat\nasleep", "a dog")


def test_the_table_of_gifts_authors_is_read_with_the_images_that_are_there(tmp_path):
    for number in (0, 2):
        Image.new("RGB", (4, 4)).save(tmp_path / f"{number}.jpeg")
    rows = "".join(f"/data/syn/DTD_Syn/{number}.jpeg,a photo of a {number}.\n" for number in range(3))
    (tmp_path / "image_text.csv").write_text("image,text\n" + rows)
    pairs = read_pairs(tmp_path)
    assert pairs.prompts == ("a photo of a 0.", "a photo of a 2.")
    assert len(pairs.images) == 2


def test_a_table_of_images_that_are_elsewhere_is_refused(tmp_path):
    (tmp_path / "image_text.csv").write_text("image,text\n/data/0.jpeg,a cat\n")
    with pytest.raises(InputError, match="put the images there"):
        read_pairs(tmp_path)


def test_sentences_of_the_task_itself():
    assert reference_sentences("class-prompts", NOTHING, TASK, "lwf") == tuple(TASK.prompts())


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("empty.txt", "\n", "holds no sentence"),
        ("rows.jsonl", "[1]\n", "JSON Lines|columns"),
        ("rows.jsonl", '{"other": 1}\n', "call that of the sentences"),
        ("names.csv", "name,path\na cat,one.jpg\n", "columns name, path; call that of the sentences"),
        ("names.tsv", "name\tpath\na cat\tone.jpg\n", "columns name, path; call that of the sentences"),
        ("words.tsv", "image file\tits words\none.jpg\ta cat\n", "columns image file, its words; call"),
        ("commas.csv", "a cat, asleep, grey\na dog\n", "call that of the sentences"),
    ],
)
def test_unusable_sentences_are_explained(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        read_sentences(tmp_path / name)


def test_missing_reference_data_is_explained(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="does not exist"):
        read_sentences(tmp_path / "nothing.txt")
    with pytest.raises(InputError, match="no dataset saved"):
        read_sentences(tmp_path / "empty")
    with pytest.raises(InputError, match="is no folder"):
        reference_images(str(tmp_path / "nothing"), NOTHING, TASK, "zscl")
    with pytest.raises(InputError, match="holds no images"):
        reference_images(str(tmp_path / "empty"), NOTHING, TASK, "zscl")


def write_pairs(folder, rows):
    write_images(folder, ["one.jpg", "two.jpg"])
    with (folder / PROMPTS_FILE).open("w", newline="") as lines:
        csv.writer(lines).writerows([("file", "prompt"), *rows])


def test_pairs_are_read_for_each_task_or_for_all(tmp_path):
    write_pairs(tmp_path, [("two.jpg", "a cat, asleep"), ("one.jpg", "a dog")])
    pairs = reference_pairs(str(tmp_path), NOTHING, TASK, "gift")
    assert pairs.prompts == ("a cat, asleep", "a dog")
    assert pairs.images.where(0).endswith("two.jpg")
    assert pairs.first(1).prompts == ("a cat, asleep",)
    write_pairs(tmp_path / "dtd", [("one.jpg", "wool")])
    assert reference_pairs(str(tmp_path), NOTHING, TASK, "gift").prompts == ("wool",)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "at least one row"),
        ([("one.jpg", "")], "line 2 .* lacks"),
        ([("../out.jpg", "a cat")], "leads out"),
        ([("three.jpg", "a cat")], "does not exist"),
    ],
)
def test_unusable_pairs_are_explained(tmp_path, rows, message):
    write_pairs(tmp_path, rows)
    with pytest.raises(InputError, match=message):
        read_pairs(tmp_path)


def test_every_image_needs_its_prompt():
    with pytest.raises(InputError, match="1 prompts for 4 images"):
        Pairs(toy_split(2, 4, 1), ("one",))


@given(st.integers(1, 20), st.integers(1, 9), st.integers(0, 40))
@settings(max_examples=50, deadline=None)
def test_a_steps_rows_do_not_depend_on_earlier_steps(size, batch, step):
    going = ShuffledRows(size, batch, "key")
    history = [going.at(earlier) for earlier in range(step + 1)]
    assert ShuffledRows(size, batch, "key").at(step) == history[-1]
    rows = [row for part in history for row in part]
    for start in range(0, len(rows) - size + 1, size):
        assert sorted(rows[start : start + size]) == list(range(size))


def test_streams_differ_by_their_key():
    assert ShuffledRows(50, 50, 0, 1).at(0) != ShuffledRows(50, 50, 0, 2).at(0)


def test_pixels_are_prepared_as_at_test_time():
    backbone, images = tiny_backbone(), toy_split(2, 4, 1)
    cache = PixelCache(backbone.preprocessing, None)
    pixels = pixels_of(images, [3, 1], cache, backbone.device)
    assert pixels.shape == (2, 3, 16, 16)
    assert np.array_equal(pixels[0].numpy(), backbone.preprocessing.pixels(images[3].image))


def test_long_sentences_are_cut_and_still_end():
    backbone = tiny_backbone()
    tokens = sentence_tokens(["word " * 100, "short"], backbone)
    assert tokens.shape == (2, 77)
    assert backbone.end_of_text(tokens)[0] == 76
    assert tokens[1, 5:].eq(tokens[0, -1]).sum() > 0
