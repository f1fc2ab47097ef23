"""CLIP with places where a method may act: loading, preprocessing, tokens and the two towers."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpw.clip.adaptation import Adaptation, LinearName
    from dpw.clip.backbone import Backbone, TowerShape
    from dpw.clip.families import FAMILIES, Family
    from dpw.clip.preprocessing import Pixels, Preprocessing
    from dpw.clip.pretrained import embedded_name
    from dpw.clip.sequences import Positions

__all__ = [
    "FAMILIES",
    "Adaptation",
    "Backbone",
    "Family",
    "LinearName",
    "Pixels",
    "Positions",
    "Preprocessing",
    "TowerShape",
    "embedded_name",
]

# Loaded when first used, so that preparing images does not import torch.
_MODULES = {
    "FAMILIES": "families",
    "Adaptation": "adaptation",
    "Backbone": "backbone",
    "Family": "families",
    "LinearName": "adaptation",
    "Pixels": "preprocessing",
    "Positions": "sequences",
    "Preprocessing": "preprocessing",
    "TowerShape": "backbone",
    "embedded_name": "pretrained",
}


def __getattr__(name: str) -> Any:
    """Import an exported name from its module on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module 'dpw.clip' has no attribute {name!r}")
    return getattr(import_module(f"dpw.clip.{_MODULES[name]}"), name)
