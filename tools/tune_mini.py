"""Try settings of a method on the validation images of `mini`: how the presets there were chosen.

python tools/tune_mini.py zscl --tasks 4 --try training.learning_rate=1e-4 --try weight=0.5,temperature=4

Every `--try` is one set of changes to the preset; without any, the preset itself is measured. The seed is
one that no published table uses, and no test image is looked at.
"""

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from dpw.benchmarks import LoadedBenchmark, load_benchmark
from dpw.cli.learn import parse_settings
from dpw.clip.backbone import Backbone
from dpw.data.pixels import PixelCache, cache_folder
from dpw.data.task import Task
from dpw.engine.devices import make_accelerator
from dpw.engine.evaluation import Evaluator
from dpw.engine.metrics import summarize
from dpw.engine.training import Trainer
from dpw.errors import InputError
from dpw.methods import METHODS, configure, create
from dpw.methods.feature_cache import FeatureCache
from dpw.runs.gathering import MAIN_METRICS
from dpw.runs.opening import reference_data


def measure(method: str, tried: Mapping[str, Any], benchmark: LoadedBenchmark, tasks: Sequence[Task]) -> str:
    """Learn the tasks one after the other and give the metrics on validation images."""
    backbone, accelerator = Backbone.from_pretrained("mini"), make_accelerator()
    cache = PixelCache(backbone.preprocessing, cache_folder())
    config = configure(method, "default", {**tried, "seed": 0}, clip="mini")
    learner = METHODS[method](backbone, config)
    learner.reference, learner.feature_cache = reference_data(benchmark), FeatureCache()
    evaluator, rows, began = Evaluator(cache, accelerator), [], time.process_time()
    plain = [test.accuracy for test in evaluator.row(create("zero-shot", backbone), tasks)]
    for task in tasks:
        Trainer(cache, accelerator, seed=0).fit(learner, task)
        rows.append([test.accuracy for test in evaluator.row(learner, tasks)])
    found = summarize(rows, plain)
    numbers = "  ".join(f"{name} {found[name]:5.1f}" for name in MAIN_METRICS if found[name] is not None)
    return f"{numbers}  {time.process_time() - began:4.0f} s"


def main(given: Sequence[str] | None = None) -> None:
    """Measure every set of changes in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("method")
    parser.add_argument("--try", dest="tries", action="append", help="key=value,key=value")
    parser.add_argument("--tasks", type=int, default=8, help="only so many of the first")
    options = parser.parse_args(given)
    benchmark = load_benchmark("mini", seed=0)
    tasks = [replace(task, test=task.val) for task in benchmark.tasks[: options.tasks]]
    for written in options.tries or [""]:
        try:
            tried = parse_settings(written.split(",") if written else None)
            numbers = measure(options.method, tried, benchmark, tasks)
        except InputError as error:
            parser.error(str(error))
        print(f"{options.method:<14}{written or 'as it is':<60}  {numbers}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
