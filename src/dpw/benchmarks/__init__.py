"""Named sequences of tasks with their setting and protocol, and sequences a user writes in YAML."""

from dpw.benchmarks.benchmark import Benchmark, LoadedBenchmark, TaskSource
from dpw.benchmarks.lookup import get_benchmark, load_benchmark
from dpw.benchmarks.registry import list_benchmarks
from dpw.benchmarks.union import ClassUnion, unite_classes

__all__ = [
    "Benchmark",
    "ClassUnion",
    "LoadedBenchmark",
    "TaskSource",
    "get_benchmark",
    "list_benchmarks",
    "load_benchmark",
    "unite_classes",
]
