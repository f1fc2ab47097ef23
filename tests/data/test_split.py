"""A split decodes lazily, knows its labels without decoding, and explains images it cannot read."""

import os
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dpw.data.split import join
from dpw.data.task import Sample, Split
from dpw.errors import InputError


def arrays(count: int, *, channels: int = 3) -> list[np.ndarray]:
    shape = (4, 5, channels) if channels == 3 else (4, 5)
    return [np.full(shape, index, dtype=np.uint8) for index in range(count)]


def numbered(count: int) -> Split:
    return Split.from_arrays(arrays(count), list(range(count)), "numbers/train")


def test_a_sample_is_an_rgb_image_with_its_label():
    sample = numbered(3)[2]
    assert isinstance(sample, Sample)
    assert (sample.image.mode, sample.image.size, sample.label) == ("RGB", (5, 4), 2)
    assert sample.image.getpixel((0, 0)) == (2, 2, 2)


def test_grey_arrays_become_rgb():
    split = Split.from_arrays(arrays(2, channels=1), [0, 1], "grey")
    assert split[1].image.getpixel((0, 0)) == (1, 1, 1)


def test_labels_need_no_image(tmp_path):
    split = Split.from_files([tmp_path / "absent.jpg"], [3])
    assert list(split.labels) == [3]


def test_slices_and_selections_are_splits():
    split = numbered(6)
    assert list(split[1:4].labels) == [1, 2, 3]
    assert [sample.label for sample in split.select([5, 0]).select([1])] == [0]
    assert split[-1].label == 5


@given(st.integers(0, 40), st.integers(0, 1000))
def test_shuffling_is_a_permutation_that_depends_on_the_seed_only(count, seed):
    split = numbered(count)
    assert sorted(split.shuffled(seed).labels) == list(split.labels)
    assert split.shuffled(seed).labels == split.shuffled(seed).labels


def test_keys_follow_the_content():
    split = numbered(3)
    assert split.key(1) == numbered(2).key(1) != split.key(2)
    assert split.select([2]).key(0) == split.key(2)


def test_the_key_of_a_file_changes_with_the_file(tmp_path):
    path = tmp_path / "a.png"
    Image.new("RGB", (4, 4)).save(path)
    split = Split.from_files([path], [0])
    before = split.key(0)
    Image.new("RGB", (9, 9), "red").save(path)
    assert split.key(0) != before


def test_places_are_readable(tmp_path):
    assert numbered(3).select([2]).where(0) == "numbers/train[2]"
    assert Split.from_files([tmp_path / "a.jpg"], [0]).where(0) == str(tmp_path / "a.jpg")


def test_images_stand_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (8, 4)).save(tmp_path / "turned.jpg", exif=exif)
    assert Split.from_files([tmp_path / "turned.jpg"], [0])[0].image.size == (4, 8)


@pytest.mark.parametrize("mode", ["L", "CMYK", "RGBA", "P", "1", "LA"])
def test_every_mode_becomes_rgb(tmp_path, mode):
    suffix = "jpg" if mode == "CMYK" else "png"
    Image.new(mode, (1, 1)).save(tmp_path / f"one.{suffix}")
    assert Split.from_files([tmp_path / f"one.{suffix}"], [0])[0].image.mode == "RGB"


def damaged(path, kind):
    whole = path.with_name("whole.jpg")
    Image.effect_noise((64, 64), 50).save(whole)
    content = whole.read_bytes()
    path.write_bytes({"empty": b"", "truncated": content[: len(content) // 2], "text": b"not an image"}[kind])


@pytest.mark.parametrize(
    ("kind", "words"), [("empty", "empty file"), ("truncated", "decoded"), ("text", "not an image")]
)
def test_a_damaged_image_is_named_with_a_remedy(tmp_path, kind, words):
    damaged(tmp_path / "bad.jpg", kind)
    with pytest.raises(InputError, match=r"bad\.jpg.*" + words + ".*; replace it"):
        Split.from_files([tmp_path / "bad.jpg"], [0])[0]


@given(st.integers(1, 400))
def test_a_jpeg_cut_anywhere_never_escapes_as_another_error(tmp_path_factory, length):
    path = tmp_path_factory.mktemp("cut") / "cut.jpg"
    Image.effect_noise((16, 16), 50).save(path)
    path.write_bytes(path.read_bytes()[:length])
    try:
        Split.from_files([path], [0])[0]
    except InputError as error:
        assert "cut.jpg" in str(error)


def test_an_absent_image_is_named(tmp_path):
    split = Split.from_files([tmp_path / "gone.jpg"], [0])
    for read in (lambda: split[0], lambda: split.key(0)):
        with pytest.raises(InputError, match=r"gone\.jpg does not exist"):
            read()


@pytest.mark.parametrize("array", [np.zeros((4, 4), np.float32), np.zeros((4, 4, 4), np.uint8)])
def test_arrays_that_are_no_images_are_refused(array):
    with pytest.raises(InputError, match=r"toy\[0\].*give uint8"):
        Split.from_arrays([array], [0], "toy")


def test_every_image_needs_a_label():
    with pytest.raises(InputError, match="2 labels were given for 3 images"):
        Split.from_arrays(arrays(3), [0, 1], "toy")


@pytest.mark.skipif(os.name == "nt", reason="there the time of a file's status is that of its making")
def test_a_file_with_old_size_and_old_time_but_other_content_has_another_key(tmp_path):
    picture = tmp_path / "a.bmp"
    Image.new("RGB", (8, 8), "red").save(picture)
    os.utime(picture, ns=(10**18, 10**18))
    before, size = Split.from_files([picture], [0]).key(0), picture.stat().st_size
    time.sleep(0.02)  # file systems tell times apart by some milliseconds
    Image.new("RGB", (8, 8), "blue").save(picture)
    os.utime(picture, ns=(10**18, 10**18))
    assert (picture.stat().st_size, picture.stat().st_mtime_ns) == (size, 10**18)
    assert Split.from_files([picture], [0]).key(0) != before


def test_joined_splits_know_their_files_unless_one_has_none(tmp_path):
    first, second = (Split.from_files([tmp_path / f"{name}.png"], [0]) for name in "ab")
    both = join([first, second])
    assert both.select([1, 0]).paths() == [str(tmp_path / "b.png"), str(tmp_path / "a.png")]
    assert join([first, Split.from_arrays([np.zeros((4, 4, 3), np.uint8)], [0], name="n")]).paths() is None
