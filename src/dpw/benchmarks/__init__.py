"""Named sequences of tasks with their setting and protocol, and sequences a user writes in YAML."""

from dpw.benchmarks.benchmark import Benchmark, LoadedBenchmark, TaskSource
from dpw.benchmarks.lookup import get_benchmark, load_benchmark
from dpw.benchmarks.registry import list_benchmarks

__all__ = [
    "Benchmark",
    "LoadedBenchmark",
    "TaskSource",
    "get_benchmark",
    "list_benchmarks",
    "load_benchmark",
]
