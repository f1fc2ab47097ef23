"""What decides the features of a CLIP, as one short name: its weights, and the settings beside them."""

import hashlib
from typing import Any

import torch

from dpw.clip.families import Family
from dpw.clip.preprocessing import Preprocessing

# Fields of a tower's configuration that change its output and cannot be read off the weights.
DECISIVE = ("hidden_act", "num_attention_heads", "layer_norm_eps")


def decisive_settings(clip: Any, family: Family, preprocessing: Preprocessing) -> dict[str, Any]:
    """What decides a feature beside the weights: of both towers, of the texts and of the pixels."""
    towers = {"image": clip.config.vision_config, "text": clip.config.text_config}
    found = {f"{tower}.{name}": getattr(part, name) for tower, part in towers.items() for name in DECISIVE}
    found |= family.texts.settings(clip)
    if family.name != "clip":  # models learned before there were families stand on CLIP
        found["family"] = family.name
    return {**found, "preprocessing": preprocessing.to_config()}


def weights_digest(clip: Any, family: Family) -> str:
    """SHA-256 of all weights, their names, the image tower's activation and the family."""
    own = "" if family.name == "clip" else f"{family.name} "
    digest = hashlib.sha256(f"{own}{clip.config.vision_config.hidden_act}".encode())
    for name, tensor in sorted(clip.state_dict().items()):
        digest.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
