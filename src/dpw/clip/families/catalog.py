"""The families that dpw knows, one description each."""

from typing import Any

from dpw.clip.families.family import Family
from dpw.clip.families.images import AttentionPooling, ClassToken
from dpw.clip.families.texts import CausalTexts, FirstTokenTexts, LastTokenTexts
from dpw.clip.family_names import NAMES, known_families
from dpw.errors import InputError

FAMILIES = {
    "clip": Family("clip", *NAMES["clip"], ClassToken(), CausalTexts(old_end=True)),
    "metaclip_2": Family("metaclip_2", *NAMES["metaclip_2"], ClassToken(), CausalTexts(old_end=False)),
    # SigLIP 2 of a fixed resolution is the same model with another vocabulary.
    "siglip": Family("siglip", *NAMES["siglip"], AttentionPooling(), LastTokenTexts(), sigmoid=True),
    "chinese_clip": Family(
        "chinese_clip", *NAMES["chinese_clip"], ClassToken(), FirstTokenTexts(inner="", offset=False)
    ),
    "altclip": Family(
        "altclip", *NAMES["altclip"], ClassToken(), FirstTokenTexts(inner="roberta", offset=True)
    ),
}
PARTS = ("vision_model", "text_model", "logit_scale")


def family_of(clip: Any) -> Family:
    """The family of a model with both towers.

    Raises:
        InputError: The model is of none that dpw knows, or is only a part of one.
    """
    kind = getattr(getattr(clip, "config", None), "model_type", None)
    if kind not in FAMILIES or not all(hasattr(clip, part) for part in PARTS):
        raise InputError(
            f"dpw cannot use a {type(clip).__name__} (model_type {kind!r}): give a whole model of one of the "
            f"families {known_families()}"
        )
    return FAMILIES[kind]
