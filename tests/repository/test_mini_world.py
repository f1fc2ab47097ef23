"""The world the embedded model was pretrained on: captions are true, pictures come from the seed alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.checks import nonempty
from tests.helpers.tools import tool

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def world():
    return {name: tool(f"mini_world.{name}") for name in ("captions", "scenes", "tokens", "vocabulary")}


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_a_caption_says_only_what_the_scene_shows(world, seed):
    rng = np.random.default_rng(seed)
    scene = world["scenes"].draw_scene(rng)
    text, said = world["captions"].caption(scene, rng)
    assert text
    assert said.concept == scene.concept
    assert all(a in (-1, b) for a, b in nonempty(zip(said, scene, strict=True)))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_a_picture_comes_from_its_seed(world, seed):
    def picture():
        rng = np.random.default_rng(seed)
        return world["scenes"].render(world["scenes"].draw_scene(rng), rng)

    assert picture().shape == (48, 48, 3)
    assert (picture() == picture()).all()


def test_held_out_pairs_are_never_drawn_for_training(world):
    rng, held_out = np.random.default_rng(0), world["vocabulary"].held_out
    for _ in range(500):
        scene = world["scenes"].draw_scene(rng)
        assert not held_out(scene.concept, scene.colour)
        unseen = world["scenes"].draw_scene(rng, unseen=True)
        assert held_out(unseen.concept, unseen.colour)


def test_every_object_is_held_out_in_some_colour_but_not_in_all(world):
    vocabulary = world["vocabulary"]
    for concept, (family, _) in nonempty(enumerate(vocabulary.CONCEPTS)):
        if family == "object":
            hidden = sum(
                vocabulary.held_out(concept, colour) for colour in range(len(vocabulary.COLOUR_NAMES))
            )
            assert 1 <= hidden <= 2


def test_every_word_of_the_corpus_becomes_one_token(world, tmp_path):
    corpus = ["a red star", "a small house", "a red house."]
    tokenizer = world["tokens"].save_tokenizer(corpus, tmp_path, context=32)
    assert tokenizer.tokenize("a red house.") == ["a</w>", "red</w>", "house</w>", ".</w>"]
    assert tokenizer.eos_token_id == len(tokenizer) - 1
