"""One image in all the forms people have it, and sentences for what is none."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from dpw.data.image_like import as_picture, image_batches, image_name, is_one_image, several_images
from dpw.errors import InputError

PIXELS = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)


def encoded(kind="PNG") -> bytes:
    """The pixels as the bytes of a file."""
    file = io.BytesIO()
    Image.fromarray(PIXELS).save(file, kind)
    return file.getvalue()


SAME = {
    "Pillow": Image.fromarray(PIXELS),
    "array": PIXELS,
    "array with strides": np.asfortranarray(PIXELS),
    "floats": PIXELS / 255,
    "RGBA": np.dstack([PIXELS, np.full((20, 30), 255, dtype=np.uint8)]),
    "tensor": torch.from_numpy(PIXELS).permute(2, 0, 1),
    "float tensor": torch.from_numpy(PIXELS).permute(2, 0, 1) / 255,
    "bytes": encoded(),
    "bytearray": bytearray(encoded()),
    "open file": io.BytesIO(encoded()),
}


@pytest.mark.parametrize("form", SAME)
def test_every_form_gives_the_same_picture(form):
    assert is_one_image(SAME[form])
    assert np.array_equal(np.asarray(as_picture(SAME[form], "it")), PIXELS)


def test_grey_arrays_and_tensors_are_pictures():
    grey = PIXELS[:, :, 0]
    for form in (grey, grey[:, :, None], torch.from_numpy(grey), torch.from_numpy(grey)[None]):
        assert np.array_equal(np.asarray(as_picture(form, "it"))[:, :, 1], grey)


BAD = [
    (PIXELS.transpose(2, 0, 1), r"shape \(3, 20, 30\); give shape \(H, W, 3\)"),
    (torch.from_numpy(PIXELS), r"shape \(20, 30, 3\); give shape \(3, H, W\)"),
    (PIXELS.astype(np.int64), "of type int64; give uint8"),
    (PIXELS > 4, "of type bool; give uint8"),
    (PIXELS.astype(np.float32), r"floats from 0 to 255, .*give floats from 0 to 1"),
    (PIXELS / 127.5 - 1, "floats from -1 to 1"),
    (np.full((4, 4), np.nan), "floats from nan to nan"),
    (np.zeros((0, 4, 3), dtype=np.uint8), r"shape \(0, 4, 3\)"),
    (np.zeros(7, dtype=np.uint8), r"shape \(7,\)"),
    (Image.new("RGB", (0, 3)), "has no pixels"),
    (Image.open(io.BytesIO(encoded("JPEG")[:700])), "cannot be decoded"),
    (encoded()[:60], "it "),
    (b"", "is not an image that can be read"),
    (io.StringIO("words"), "it "),
    (None, "it is None; give a path"),
    ([PIXELS], "it is an object of type list; give a path"),
]


@pytest.mark.parametrize(("image", "sentence"), BAD, ids=range(len(BAD)))
def test_what_is_no_image_is_a_sentence(image, sentence):
    with pytest.raises(InputError, match=sentence):
        as_picture(image, "it")


def test_one_image_or_several():
    assert is_one_image("a.jpg")
    assert is_one_image(Path("a.jpg"))
    assert not is_one_image(["a.jpg"])
    assert not is_one_image(np.array(["a.jpg", "b.jpg"]))
    assert not is_one_image(PIXELS[None])
    assert not is_one_image(torch.zeros(2, 3, 4, 4))
    for nothing in (None, 5, {"a.jpg": 1}):
        assert not is_one_image(nothing)
        with pytest.raises(InputError, match="is no image; give a path"):
            several_images(nothing)


def test_images_are_called_by_path_or_position(tmp_path):
    (tmp_path / "a.png").write_bytes(encoded())
    with (tmp_path / "a.png").open("rb") as file:
        names = [
            image_name(one, 7) for one in (tmp_path / "a.png", np.str_("b.png"), file, PIXELS, io.BytesIO())
        ]
    assert names == [str(tmp_path / "a.png"), "b.png", str(tmp_path / "a.png"), "image 7", "image 7"]


def test_batches_take_no_more_than_they_need():
    taken = []
    source = (taken.append(number) or f"{number}.jpg" for number in range(10))
    names, images = next(image_batches(source, 4))
    assert taken == [0, 1, 2, 3]
    assert names == images == ["0.jpg", "1.jpg", "2.jpg", "3.jpg"]
    assert [names[-1] for names, _ in image_batches([PIXELS] * 10, 4)] == ["image 3", "image 7", "image 9"]
