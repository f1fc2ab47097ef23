"""Families of CLIP: for each a small description of what differs from the others; the towers are the same."""

from dpw.clip.families.catalog import FAMILIES, family_of
from dpw.clip.families.family import Family

__all__ = ["FAMILIES", "Family", "family_of"]
