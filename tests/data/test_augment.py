"""The random crop of protocol zscl is torchvision's, but seeded by (seed, epoch, index)."""

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dpw.data.augment import RATIO, SCALE, crop_box, random_resized_crop


@given(st.integers(1, 600), st.integers(1, 600), st.integers())
def test_a_box_lies_inside_and_keeps_an_allowed_share(width, height, seed):
    left, top, right, bottom = crop_box((width, height), random.Random(seed))
    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= height
    if width > 50 and height > 50 and RATIO[0] < width / height < RATIO[1]:
        share = (right - left) * (bottom - top) / (width * height)
        assert SCALE[0] - 0.05 < share <= 1


@given(st.integers(1, 400), st.integers(1, 400))
def test_what_does_not_fit_becomes_the_centre(width, height):
    box = crop_box((width, 20 * height), random.Random(0))
    ratio = (box[2] - box[0]) / (box[3] - box[1])
    assert ratio > 0.3


def picture():
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8))


def test_the_crop_depends_on_seed_epoch_and_index_only():
    def crop(**changes):
        return random_resized_crop(
            picture(), (16, 16), **({"seed": 1, "epoch": 0, "index": 3} | changes)
        ).tobytes()

    assert crop() == crop()
    assert len({crop(), crop(seed=2), crop(epoch=1), crop(index=4)}) == 4


def test_the_crop_has_the_size_asked_for_and_is_not_flipped():
    gradient = np.tile(np.linspace(0, 255, 64).astype(np.uint8)[None, :, None], (48, 1, 3))
    for index in range(10):
        cut = random_resized_crop(Image.fromarray(gradient), (12, 20), seed=0, epoch=0, index=index)
        assert cut.size == (20, 12)
        assert cut.getpixel((0, 0))[0] < cut.getpixel((19, 0))[0]
