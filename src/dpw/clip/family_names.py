"""The names of the families of CLIP, for whoever must not wait for torch."""

# By transformers' `model_type`: how people call the family, and its class in transformers.
NAMES = {
    "clip": ("CLIP", "CLIPModel"),
    "metaclip_2": ("MetaCLIP 2", "MetaClip2Model"),
    "siglip": ("SigLIP", "SiglipModel"),
    "chinese_clip": ("Chinese-CLIP", "ChineseCLIPModel"),
    "altclip": ("AltCLIP", "AltCLIPModel"),
}
# What looks like one of them and is none, and what to take instead.
REFUSED = {
    "siglip2": "SigLIP 2 of variable resolution (NaFlex); take one of a fixed resolution",
    "clip_vision_model": "only the image tower of a CLIP; take the whole CLIP",
    "clip_text_model": "only the text tower of a CLIP; take the whole CLIP",
    "siglip_vision_model": "only the image tower of a SigLIP; take the whole SigLIP",
    "siglip_text_model": "only the text tower of a SigLIP; take the whole SigLIP",
}


def known_families() -> str:
    """All families as a sentence names them.

    Example:
        >>> from dpw.clip.family_names import known_families
        >>> known_families().split(", ")[0]
        "CLIP ('clip')"
    """
    return ", ".join(f"{title} ({name!r})" for name, (title, _) in NAMES.items())
