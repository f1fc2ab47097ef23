"""The tokeniser read without transformers gives the same tokens; an unusual one is left to transformers."""

import json
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import CLIPTokenizer

from dpw.clip.plain_tokens import plain_tokenizer
from dpw.clip.pretrained import EMBEDDED

TEXTS = [
    "a photo of a cat.",
    "An  ÉLÈVE's dog's 42,7!",
    "中文 <|endoftext|> x",
    "",
    "it's\tI'd\nwe're",
    "🙂 ﬁne",
]


@pytest.fixture(scope="module")
def theirs():
    return CLIPTokenizer.from_pretrained(EMBEDDED["mini"])


@pytest.mark.parametrize("one_file", [True, False])
def test_tokens_are_those_of_transformers(theirs, tmp_path, one_file):
    folder = shutil.copytree(EMBEDDED["mini"], tmp_path / "mini")
    if not one_file:
        (folder / "tokenizer.json").unlink()
    ours = plain_tokenizer(folder)
    assert ours(TEXTS)["input_ids"] == theirs(TEXTS)["input_ids"]
    cut = {"truncation": True, "max_length": 6}
    assert ours(TEXTS, **cut)["input_ids"] == theirs(TEXTS, **cut)["input_ids"]
    assert (ours.bos_token_id, ours.eos_token_id) == (theirs.bos_token_id, theirs.eos_token_id)


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=60))
def test_any_text(theirs, text):
    ours = plain_tokenizer(EMBEDDED["mini"])
    assert ours([text])["input_ids"] == theirs([text])["input_ids"]


def test_an_unusual_tokeniser_is_left_to_transformers(tmp_path):
    folder = shutil.copytree(EMBEDDED["mini"], tmp_path / "mini")
    path = folder / "tokenizer_config.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "bos_token": "<s>"}))
    assert plain_tokenizer(folder) is None
    path.write_text(json.dumps(content))
    whole = json.loads((folder / "tokenizer.json").read_text())
    whole["added_tokens"].append({"id": 9, "content": "<cat>"})
    (folder / "tokenizer.json").write_text(json.dumps(whole))
    assert plain_tokenizer(folder) is None
    (folder / "tokenizer.json").write_text("{")
    assert plain_tokenizer(folder) is None


@pytest.mark.parametrize("merges", [[["no", "such"]], [[None, None]], ["no such"]])
def test_pairs_outside_the_vocabulary_are_left_to_transformers(tmp_path, merges):
    """`tokenizers` raises a bare `Exception` for them."""
    vocabulary = json.loads((EMBEDDED["mini"] / "vocab.json").read_text())
    content = {"added_tokens": [], "model": {"vocab": vocabulary, "merges": []}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    assert plain_tokenizer(tmp_path) is not None
    content["model"]["merges"] = merges
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    assert plain_tokenizer(tmp_path) is None
