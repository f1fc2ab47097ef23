"""Fit one task and measure all test sets: training, feeding, evaluation, metrics, devices."""
