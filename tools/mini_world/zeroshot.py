"""How well the model answers in its own world, also for pairs of object and colour it never saw."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import CLIPModel, CLIPTokenizer

from mini_world import words
from mini_world.captions import with_article
from mini_world.pool import Pool
from mini_world.vocabulary import COLOUR_NAMES, CONCEPTS, Scene

# Small enough for the activations of a block to stay in the processor's cache: twice as fast as 256.
CHUNK = 32

ToTensor = Callable[[npt.NDArray[np.uint8]], Tensor]


def plain_name(family: str, name: str) -> str:
    """Give the plainest phrase for a concept."""
    phrases = {
        "object": with_article(words.OBJECT_WORDS[name][0]) if family == "object" else "",
        "arrow": f"an arrow pointing {name}",
        "texture": f"a {words.TEXTURE_WORDS[name][0]} texture" if family == "texture" else "",
        "flag": f"the flag of {name}",
        "sign": f"a {name} sign",
        "land": words.LAND_WORDS[name][0] if family == "land" else "",
        "face": f"a {name} face",
        "letter": f"the letter {name}",
        "digit": f"the digit {name}",
    }
    return phrases[family]


def text_features(model: CLIPModel, tokenizer: CLIPTokenizer, texts: list[str]) -> Tensor:
    """Embed texts as unit vectors."""
    tokens = tokenizer(texts, padding=True, return_tensors="pt")
    pooled = model.text_model(**tokens).pooler_output
    return torch.nn.functional.normalize(model.text_projection(pooled), dim=-1)


def image_features(model: CLIPModel, pixels: Tensor) -> Tensor:
    """Embed pictures as unit vectors."""
    parts = [model.visual_projection(model.vision_model(part).pooler_output) for part in pixels.split(CHUNK)]
    return torch.nn.functional.normalize(torch.cat(parts), dim=-1)


@torch.no_grad()
def world_accuracy(
    model: CLIPModel, tokenizer: CLIPTokenizer, checks: dict[str, Pool], to_tensor: ToTensor
) -> dict[str, float]:
    """Measure naming by family on pictures of seen kinds, and object × colour naming on held-out pairs."""
    model.eval()
    result: dict[str, float] = {}
    seen = image_features(model, to_tensor(np.asarray(checks["seen"].images)))
    concepts = checks["seen"].scenes[:, 0].astype(np.int64)
    for family in dict.fromkeys(kind for kind, _ in CONCEPTS):
        members = [i for i, (kind, _) in enumerate(CONCEPTS) if kind == family]
        names = text_features(model, tokenizer, [f"a photo of {plain_name(*CONCEPTS[i])}." for i in members])
        rows = np.isin(concepts, members)
        guesses = np.array(members)[(seen[rows] @ names.T).argmax(1).numpy()]
        result[f"seen_{family}"] = round(float((guesses == concepts[rows]).mean()) * 100, 1)
    pairs = _pair_accuracy(model, tokenizer, checks, to_tensor)
    model.train()
    return {**result, **pairs}


def _pair_accuracy(
    model: CLIPModel, tokenizer: CLIPTokenizer, checks: dict[str, Pool], to_tensor: ToTensor
) -> dict[str, float]:
    """Choose among all "colour object" names, for pairs seen in training and pairs held out."""
    objects = [i for i, (kind, _) in enumerate(CONCEPTS) if kind == "object"]
    pairs = [(i, c) for i in objects for c in range(len(COLOUR_NAMES))]
    texts = [
        f"a photo of {with_article(f'{COLOUR_NAMES[c]} {words.OBJECT_WORDS[CONCEPTS[i][1]][0]}')}."
        for i, c in pairs
    ]
    names = text_features(model, tokenizer, texts)
    result = {}
    for split, part in checks.items():
        scenes = [Scene(*map(int, row)) for row in part.scenes]
        rows = [r for r, s in enumerate(scenes) if s.family == "object" and s.count == 1]
        guesses = (image_features(model, to_tensor(np.asarray(part.images[rows]))) @ names.T).argmax(1)
        right = [
            pairs[int(g)] == (scenes[r].concept, scenes[r].colour) for g, r in zip(guesses, rows, strict=True)
        ]
        result[f"{split}_pair"] = round(float(np.mean(right)) * 100, 1)
    return result
