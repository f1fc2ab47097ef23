"""Dynamic Prefix Weighting, the method of the paper: read `method.py`, then `tower.py`."""

from dpw.methods.dpw.config import DPWConfig, DPWReducedConfig
from dpw.methods.dpw.method import DPW, DPWReduced
from dpw.methods.dpw.tower import DPWAdaptation, DPWTower

__all__ = ["DPW", "DPWAdaptation", "DPWConfig", "DPWReduced", "DPWReducedConfig", "DPWTower"]
