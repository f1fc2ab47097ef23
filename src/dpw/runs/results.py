"""`results.json` and `accuracy.csv`: what a finished run found, with everything needed to trust it."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpw.benchmarks import LoadedBenchmark
from dpw.engine.metrics import summarize
from dpw.errors import InputError, StoreError
from dpw.methods import Method, suited_settings
from dpw.storage import files

KIND = "dpw-results"


def collect(
    *,
    config: Mapping[str, Any],
    method: Method,
    benchmark: LoadedBenchmark,
    versions: Mapping[str, str],
    rows: Sequence[Mapping[str, Any]],
    zero_shot: Sequence[float | None],
    seconds: Mapping[str, float],
) -> dict[str, Any]:
    """Everything a result must say."""
    matrix = [[test["accuracy"] for test in row["tests"]] for row in rows]
    return {
        "format": files.FORMAT,
        "kind": KIND,
        "method": method.name,
        "status": method.status,
        "preset": config["preset"],
        "benchmark": benchmark.name,
        "setting": benchmark.setting,
        "protocol": benchmark.protocol,
        "decision": getattr(method.config, "decision", "per-image"),
        "merge_equal_names": benchmark.merge_equal_names,
        "shots": benchmark.shots,
        "model": config["model"],
        "seed": config["seed"],
        "tasks": list(benchmark.task_names),
        "classes": [len(task.classes) for task in benchmark.tasks],
        "accuracy": matrix,
        "zero_shot": list(zero_shot),
        "metrics": summarize(matrix, zero_shot),
        "task_identification": task_identification(rows),
        "parameters": rows[-1]["parameters"],
        "settings": dict(config),
        "benchmark_settings": suited_settings(method.name, config["model"]),
        "method_config": method.config.model_dump(mode="json"),
        "versions": dict(versions),
        "seconds": dict(seconds),
    }


def task_identification(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """How often the right task was found after each task, and where every set's images went at the end."""
    if any(test["routed"] is None for row in rows for test in row["tests"]):
        return None
    accuracy = []
    for index, row in enumerate(rows):
        learned = row["tests"][: index + 1]
        right = sum(test["routed"][place] for place, test in enumerate(learned))
        accuracy.append(100 * right / sum(test["images"] for test in learned))
    return {"accuracy": accuracy, "confusion": [test["routed"] for test in rows[-1]["tests"]]}


def write(folder: Path, content: Mapping[str, Any]) -> None:
    """Write both files."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["after", *content["tasks"]])
    writer.writerow(["zero-shot", *content["zero_shot"]])
    for name, row in zip(content["tasks"], content["accuracy"], strict=True):
        writer.writerow([name, *row])
    files.write_bytes(folder / "accuracy.csv", table.getvalue().encode())
    files.write_json(folder / "results.json", content)


def read(folder: Path) -> dict[str, Any]:
    """The results of a finished run."""
    path = folder / "results.json"
    if not path.exists() and (folder / "run.json").exists():
        raise StoreError(f"the run in {folder} is not finished: continue it with 'dpw resume {folder}'")
    content = files.read_json(path, "finished dpw run")
    if content.get("kind") != KIND:
        raise StoreError(f"{path} is a {content.get('kind')!r}, not the results of a run")
    return content


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """The runs that are named, each once; a folder of runs stands for all finished ones in it."""
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            raise InputError(f"there is no folder {path}: give the folder of a finished run")
        is_run = (path / "results.json").exists() or (path / "run.json").exists()
        inside = [] if is_run else sorted(result.parent for result in path.glob("*/results.json"))
        if not is_run and not inside:
            raise InputError(f"{path} holds no finished run: give the folder of a run, or a folder of runs")
        found += inside or [path]
    if not found:
        raise InputError("give at least one folder of a finished run")
    return list({path.resolve(): path for path in found}.values())


def seconds(path: Path) -> dict[str, float]:
    """Time spent learning and measuring, over all sessions of a run."""
    spent = {"learn": 0.0, "measure": 0.0}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
                spent[entry["event"]] += float(entry["seconds"])
            except (ValueError, KeyError, TypeError):
                continue  # a line cut off by a kill costs a little time, not a result
    return spent
