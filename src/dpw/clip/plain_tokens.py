"""CLIP's tokeniser by the `tokenizers` library alone, as transformers' `CLIPTokenizer` puts it together."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

START, END = "<|startoftext|>", "<|endoftext|>"
WORDS = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
SPECIAL = {"bos_token": START, "eos_token": END, "unk_token": END, "pad_token": END}


class PlainTokenizer:
    """Texts to token ids between the start and the end of text."""

    def __init__(self, vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> None:
        """Take the byte pairs; the rest is the same for every CLIP."""
        from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

        pairs = models.BPE(vocabulary, merges, unk_token=END, end_of_word_suffix="</w>", fuse_unk=False)
        self._tokenizer = Tokenizer(pairs)
        self._tokenizer.normalizer = normalizers.Sequence(
            [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
        )
        split = pre_tokenizers.Split(Regex(WORDS), behavior="removed", invert=True)
        bytewise = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self._tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, bytewise])
        marks = [AddedToken(mark, normalized=False, special=True) for mark in (START, END)]
        self._tokenizer.add_special_tokens(marks)
        ends = (END, vocabulary[END]), (START, vocabulary[START])
        self._tokenizer.post_processor = processors.RobertaProcessing(
            *ends, trim_offsets=False, add_prefix_space=False
        )
        self.bos_token_id, self.eos_token_id = vocabulary[START], vocabulary[END]
        self.pad_token_id = self.eos_token_id

    def __call__(
        self, texts: Sequence[str], *, truncation: bool = False, max_length: int | None = None
    ) -> dict[str, list[list[int]]]:
        """Token ids of texts under `input_ids`; with truncation none is longer than `max_length`."""
        rows = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]
        if truncation and max_length is not None:
            rows = [row if len(row) <= max_length else [*row[: max_length - 1], row[-1]] for row in rows]
        return {"input_ids": rows}


def plain_tokenizer(folder: Path) -> PlainTokenizer | None:
    """The tokeniser of a folder, or None where its files say something that only transformers understands."""
    try:
        config = (
            _json(folder / "tokenizer_config.json") if (folder / "tokenizer_config.json").exists() else {}
        )
        if any(_content(config.get(name, mark)) != mark for name, mark in SPECIAL.items()):
            return None
        if (folder / "tokenizer.json").is_file():
            return _from_one(_json(folder / "tokenizer.json"))
        lines = (folder / "merges.txt").read_text(encoding="utf-8").splitlines()
        pairs = [line for line in lines if line and not line.startswith("#version")]
        return _made(_json(folder / "vocab.json"), pairs)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _from_one(content: dict[str, Any]) -> PlainTokenizer | None:
    """The tokeniser of `tokenizer.json`, unless it has tokens of its own."""
    if {mark["content"] for mark in content["added_tokens"]} - {START, END}:
        return None
    return _made(content["model"]["vocab"], content["model"]["merges"])


def _made(vocabulary: dict[str, int], merges: Sequence[str | Sequence[str]]) -> PlainTokenizer | None:
    """A tokeniser of byte pairs, written as one text or as two."""
    if START not in vocabulary or END not in vocabulary:
        return None
    pairs = [tuple(pair.split(" ")) if isinstance(pair, str) else tuple(pair) for pair in merges]
    if any(len(pair) != 2 for pair in pairs):
        return None
    try:
        return PlainTokenizer(vocabulary, [(str(first), str(second)) for first, second in pairs])
    except Exception:  # pairs or numbers that do not fit: `tokenizers` raises nothing more particular
        return None


def _json(path: Path) -> Any:
    """The content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def _content(mark: Any) -> Any:
    """The text of a special token, written as a text or with its settings."""
    return mark.get("content") if isinstance(mark, dict) else mark
