"""Dynamic Prefix Weighting, the method of the paper: read `method.py`, then `tower.py`."""
