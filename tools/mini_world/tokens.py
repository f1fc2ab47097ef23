"""A small byte-pair vocabulary in the format of CLIP's tokeniser, learned from captions."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

from transformers import CLIPTokenizer

END = "</w>"
END_OF_TEXT = "<|endoftext|>"


def byte_symbols() -> list[str]:
    """Give the 256 printable symbols by which CLIP's tokeniser writes bytes, in its order."""
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(code) for code in printable] + [chr(256 + place) for place in range(len(others))]


def learn_merges(counts: Counter[str]) -> list[tuple[str, str]]:
    """Merge the most frequent neighbours until every word is one token; ties go by the alphabet."""
    spelled = {word: (*word[:-1], word[-1] + END) for word in counts}
    merges: list[tuple[str, str]] = []
    while True:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, symbols in spelled.items():
            for pair in pairwise(symbols):
                pairs[pair] += counts[word]
        if not pairs:
            return merges
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        spelled = {word: _merged(symbols, best) for word, symbols in spelled.items()}


def _merged(symbols: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    """Join every occurrence of a pair in a spelling."""
    joined: list[str] = []
    for symbol in symbols:
        if joined and (joined[-1], symbol) == pair:
            joined[-1] += symbol
        else:
            joined.append(symbol)
    return tuple(joined)


def words_of(captions: list[str]) -> Counter[str]:
    """Count the words of captions as the tokeniser splits them: letters together, digits and signs alone."""
    counts: Counter[str] = Counter()
    for text in captions:
        spaced = "".join(c if c.isalpha() else f" {c} " for c in text.lower())
        counts.update(spaced.split())
    return counts


def save_tokenizer(captions: list[str], folder: Path, context: int) -> CLIPTokenizer:
    """Learn the vocabulary and write the tokeniser's files; end-of-text is the largest id and the padding."""
    merges = learn_merges(words_of(captions))
    symbols = byte_symbols()
    vocabulary = [*symbols, *(s + END for s in symbols), *("".join(pair) for pair in merges)]
    vocabulary += ["<|startoftext|>", END_OF_TEXT]
    folder.mkdir(parents=True, exist_ok=True)
    ids = {token: place for place, token in enumerate(vocabulary)}
    if len(ids) != len(vocabulary):
        raise ValueError("two merges give the same token")
    (folder / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    tokenizer = CLIPTokenizer(
        vocab=str(folder / "vocab.json"),
        merges=str(folder / "merges.txt"),
        model_max_length=context,
        pad_token=END_OF_TEXT,
    )
    tokenizer.save_pretrained(folder)
    return tokenizer
