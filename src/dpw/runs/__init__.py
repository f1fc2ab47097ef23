"""One benchmark run from start to results; finished runs gathered, compared and set beside published ones."""

from dpw.benchmarks import load_benchmark

__all__ = ["load_benchmark"]
