"""Packed prompts: nothing twice, nothing behind an end."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import models
from dpw.clip.adaptation import Adaptation
from dpw.clip.sequences import PackedPrompts

BACKBONE = models.backbone("tiny")

CLOSE = {"rtol": 1e-5, "atol": 1e-5}

prompts = st.lists(
    st.text("abc ", max_size=12).map(lambda words: f"a photo of {words}."), min_size=1, max_size=6
)


@settings(max_examples=25, deadline=None)
@given(prompts)
def test_packed_prompts_equal_whole_ones(names):
    tokens = BACKBONE.tokenize(names)
    with torch.no_grad():
        packed = BACKBONE.encode_texts(tokens)
        whole = BACKBONE.encode_texts(
            tokens, Adaptation()
        )  # may not be packed: nobody says it looks at single tokens
    torch.testing.assert_close(packed, whole, **CLOSE)


def test_the_common_beginning_is_computed_once_and_nothing_behind_an_end():
    tokens = BACKBONE.tokenize(["a photo of a cat.", "a photo of a very old dog.", "a photo of a dog."])
    packed = PackedPrompts(tokens, BACKBONE.end_of_text(tokens))
    assert packed.shared == 5  # start, a, photo, of, a
    assert len(packed.ids) == 5 + (1 + 2) + (3 + 2) + (1 + 2)
    equal = BACKBONE.tokenize(["x."] * 3)
    assert PackedPrompts(equal, BACKBONE.end_of_text(equal)).shared == equal.shape[1] - 1
