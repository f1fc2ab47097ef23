"""The families that dpw knows, one description each."""

from typing import Any

from dpw.clip.families.family import Family
from dpw.clip.families.images import AttentionPooling, ClassToken
from dpw.clip.families.texts import CausalTexts, FirstTokenTexts, LastTokenTexts
from dpw.errors import InputError

EVERY = (
    Family("clip", "CLIP", "CLIPModel", ClassToken(), CausalTexts(old_end=True)),
    Family("metaclip_2", "MetaCLIP 2", "MetaClip2Model", ClassToken(), CausalTexts(old_end=False)),
    # SigLIP 2 of a fixed resolution is the same model with another vocabulary.
    Family("siglip", "SigLIP", "SiglipModel", AttentionPooling(), LastTokenTexts(), sigmoid=True),
    Family(
        "chinese_clip",
        "Chinese-CLIP",
        "ChineseCLIPModel",
        ClassToken(),
        FirstTokenTexts(inner="", offset=False),
    ),
    Family("altclip", "AltCLIP", "AltCLIPModel", ClassToken(), FirstTokenTexts(inner="roberta", offset=True)),
)
FAMILIES = {family.name: family for family in EVERY}


def known_families() -> str:
    """All families as a sentence names them."""
    return ", ".join(f"{family.title} ({family.name!r})" for family in EVERY)


def family_of(clip: Any) -> Family:
    """The family of a transformers model.

    Raises:
        InputError: The model is of none that dpw knows.
    """
    kind = getattr(getattr(clip, "config", None), "model_type", None)
    family = FAMILIES.get(str(kind))
    if family is None or type(clip).__name__ != family.model:
        raise InputError(
            f"dpw cannot use a {type(clip).__name__} (model_type {kind!r}): give a model of one of the "
            f"families {known_families()}"
        )
    return family
