"""docs/gallery.md shows every figure with a sentence, and its pictures are there and small."""

import io
import re

import numpy as np
import pytest
from PIL import Image

from tests.helpers.tools import tool


@pytest.fixture(scope="module")
def gallery():
    pytest.importorskip("sklearn")
    return tool("gallery")


def test_the_gallery_page_is_up_to_date(gallery):
    text = gallery.PAGE.read_text(encoding="utf-8")
    assert text in (gallery.page(pictures=True), gallery.page(pictures=False)), "run: make gallery"
    for link in re.findall(r"\]\((gallery/[^)]+)\)", text):
        picture = gallery.PAGE.parent / link
        assert picture.stat().st_size <= gallery.LARGEST


def test_pictures_are_made_small_enough(gallery):
    noise = np.random.default_rng(0).integers(0, 256, (400, 600, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(noise).save(out, "PNG")
    assert len(gallery.shrink(out.getvalue())) <= gallery.LARGEST
