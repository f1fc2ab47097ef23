"""What a finished run found, with everything needed to trust it: the content of `results.json`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dpw.benchmarks import LoadedBenchmark
from dpw.data.reference import OWN_IMAGES, OWN_PROMPTS
from dpw.engine.metrics import summarize
from dpw.methods import Method, suited_settings
from dpw.methods.registry import PATH_SETTINGS
from dpw.runs.config import RunConfig
from dpw.runs.provenance import versions
from dpw.storage.run_folder import RESULTS_HEADER, Step


def collect(
    *,
    config: RunConfig,
    method: Method,
    benchmark: LoadedBenchmark,
    rows: Sequence[Mapping[str, Any]],
    zero_shot: Sequence[float | None],
    steps: Iterable[Step],
    provenance: Mapping[str, Any],
) -> dict[str, Any]:
    """Everything a result must say."""
    matrix = [[test["accuracy"] for test in row["tests"]] for row in rows]
    images = [int(test["images"]) for test in rows[-1]["tests"]] if benchmark.benchmark.steps else None
    return {
        **RESULTS_HEADER,
        "method": method.name,
        "status": method.status,
        "preset": config.preset,
        "benchmark": benchmark.name,
        "setting": benchmark.setting,
        "protocol": benchmark.protocol,
        "decision": getattr(method.config, "decision", "per-image"),
        "merge_equal_names": benchmark.merge_equal_names,
        "shots": benchmark.shots,
        "model": config.model,
        "seed": config.seed,
        "tasks": list(benchmark.task_names),
        "classes": [len(task.classes) for task in benchmark.tasks],
        "accuracy": matrix,
        "zero_shot": list(zero_shot),
        "metrics": summarize(matrix, zero_shot, images),
        "task_identification": task_identification(rows),
        "parameters": rows[-1]["parameters"],
        "extra_data": extra_data(method),
        "settings": config.model_dump(mode="json"),
        "benchmark_settings": suited_settings(method.name, config.model),
        "method_config": method.config.model_dump(mode="json"),
        "versions": versions(),
        "provenance": dict(provenance),
        "seconds": total_seconds(steps),
    }


def extra_data(method: Method) -> bool:
    """Whether a method looked at data beyond the tasks: named by a setting, or brought by the benchmark."""
    named = [getattr(method.config, name) for name in PATH_SETTINGS if hasattr(method.config, name)]
    brought = method.reference.images is not None
    return any(brought if value is None else value not in (OWN_IMAGES, OWN_PROMPTS) for value in named)


def task_identification(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """How often the right task was found after each task, and where every set's images went at the end."""
    if any(test["routed"] is None for row in rows for test in row["tests"]):
        return None
    accuracy = []
    for index, row in enumerate(rows):
        learned = row["tests"][: index + 1]
        right = sum(test["routed"][task] for task, test in enumerate(learned))
        accuracy.append(100 * right / sum(test["images"] for test in learned))
    return {"accuracy": accuracy, "confusion": [test["routed"] for test in rows[-1]["tests"]]}


def total_seconds(steps: Iterable[Step]) -> dict[str, float]:
    """Time spent learning and measuring, over all sessions of a run."""
    spent = {"learn": 0.0, "measure": 0.0}
    for step in steps:
        if step.event in spent:
            spent[step.event] += step.seconds
    return spent
