"""Dynamic Prefix Weighting, the method of the paper."""

from dpw.methods.dpw.method import DPW, DPWAdaptation, DPWConfig, DPWReduced, DPWReducedConfig, DPWTower

__all__ = ["DPW", "DPWAdaptation", "DPWConfig", "DPWReduced", "DPWReducedConfig", "DPWTower"]
