"""Masks and pictures of the canvas are what Pillow and numpy give in the plainest way."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from dpw.benchmarks.mini import canvas
from tests.helpers.checks import nonempty

SIDE = canvas.SIDE * canvas.OVERSAMPLING
places = st.floats(-1.5, 1.5, width=32)
polygons = st.lists(st.lists(st.tuples(places, places), min_size=3, max_size=7), min_size=1, max_size=3)


def plainly(draw):
    """A mask that Pillow draws into an image of its own."""
    image = Image.new("L", (SIDE, SIDE))
    draw(ImageDraw.Draw(image))
    return np.asarray(image) > 0


@given(polygons)
def test_a_mask_is_what_pillow_draws(shapes):
    points = [np.array(shape) for shape in shapes]

    def draw(pen):
        for one in points:
            pen.polygon([tuple(pair) for pair in ((one + 1) * SIDE / 2).tolist()], fill=1)

    assert np.array_equal(canvas.mask_of(points), plainly(draw))


def test_a_line_is_as_wide_as_asked_and_round_at_its_ends():
    mask = canvas.line_mask([canvas.polygon(-0.5, 0, 0.5, 0)], 0.25)
    assert mask[:, SIDE // 2].sum() == round(0.25 * SIDE / 2)
    assert mask[SIDE // 2].sum() > SIDE / 2
    assert not mask[0].any()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_paint_puts_colours_and_pictures_where_the_mask_is_set(kind):
    rng = np.random.default_rng(0)
    picture, other = (canvas.plain((1, 2, 3)).astype(kind) + rng.random((SIDE, SIDE, 3)) for _ in range(2))
    mask = rng.random((SIDE, SIDE)) < 0.3
    for fill in nonempty([(9.0, 8.0, 7.0), other]):
        found, expected = picture.copy(), picture.copy()
        canvas.paint(found, mask, fill)
        expected[mask] = fill[mask] if isinstance(fill, np.ndarray) else fill
        assert np.array_equal(found, expected)


def test_pictures_are_looked_up_and_shrunk_pixel_by_pixel():
    picture = np.random.default_rng(1).random((SIDE, SIDE, 3)) * 255
    x, y = canvas.grid()
    assert np.array_equal(canvas.sample(picture, x, y), picture)
    assert np.array_equal(canvas.sample(picture, -x, y), picture[:, ::-1])
    blocks = picture.reshape(canvas.SIDE, 2, canvas.SIDE, 2, 3).mean(axis=(1, 3))
    small = canvas.finish(picture)
    assert small.flags.c_contiguous
    np.testing.assert_allclose(small, blocks, atol=0.51)


def test_the_grid_is_shared_and_cannot_be_written():
    x, _ = canvas.grid()
    with pytest.raises(ValueError, match="read-only"):
        x[0] = 0
