"""Whole models as one graph each, without a decision of the host: for export, and for accelerators."""
