"""A benchmark run: a folder that can be stopped at any moment and goes on to the same bytes."""

import importlib.util
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from dpw import __version__
from dpw.benchmarks import LoadedBenchmark, load_benchmark
from dpw.clip.backbone import Backbone
from dpw.data.pixels import PixelCache
from dpw.data.reference import Pairs, ReferenceData
from dpw.engine.evaluation import Evaluator
from dpw.engine.training import Trainer, Unwatched, Watcher
from dpw.errors import InputError, StoreError
from dpw.learner import NO_STOP, cache_folder, make_accelerator, training_identity
from dpw.methods import METHODS, Method, configure
from dpw.methods.config import MethodConfig, Settings
from dpw.methods.feature_cache import FeatureCache
from dpw.runs import results
from dpw.storage import files, model_folder
from dpw.storage.checkpoint import ProgressFolder, refuse_differences
from dpw.storage.logs import MetricsLog

KIND = "dpw-run"


class RunConfig(Settings):
    """Everything that decides the numbers of a run, and how it is carried out."""

    benchmark: str
    model: str
    method: str = "dpw"
    preset: str = "default"
    settings: dict[str, Any] = Field(default_factory=dict)
    seed: int = Field(0, ge=0)
    data_root: str | None = None
    protocol: str | None = None
    shots: int | None = Field(None, ge=1)
    order: tuple[str, ...] | None = None
    evaluation_batch: int = Field(256, ge=1)
    mixed_precision: Literal["no", "fp16", "bf16"] = "no"
    gradient_accumulation: int = Field(1, ge=1)
    workers: int = Field(0, ge=0)
    trackers: tuple[Literal["tensorboard", "wandb", "trackio"], ...] = ()


@dataclass
class RunOptions:
    """How a run is watched and kept, which changes no number."""

    checkpoint_seconds: float = 30.0
    watcher: Watcher = field(default_factory=Unwatched)
    should_stop: Callable[[], bool] = NO_STOP
    told: Callable[[str], None] = lambda _: None


def start(config: RunConfig, folder: Path, options: RunOptions) -> dict[str, Any]:
    """Begin a run in a new folder, or go on with the same run in an old one; gives the results."""
    path = folder / "run.json"
    if path.exists():
        stored = files.read_json(path, "dpw run")
        refuse_differences(path, stored["settings"], config.model_dump(mode="json"))
        return resume(folder, options)
    if folder.is_dir():
        files.remove_leftovers(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is not an empty folder: choose another --output")
    method = method_config(config)
    content = {
        "format": files.FORMAT,
        "kind": KIND,
        "settings": config.model_dump(mode="json"),
        "method_config": method.model_dump(mode="json"),
        "versions": versions(),
    }
    run = _Run(folder, config, options)  # finds mistakes before anything is written
    run.accelerator.wait_for_everyone()
    if run.accelerator.is_main_process:
        files.write_json(path, content)
    return run.go()


def resume(folder: Path, options: RunOptions) -> dict[str, Any]:
    """Go on with a run from where it stands; a finished run only gives its results."""
    content = files.read_json(folder / "run.json", "dpw run")
    if content.get("kind") != KIND:
        raise StoreError(f"{folder / 'run.json'} is a {content.get('kind')!r}, not a run")
    return _Run(folder, RunConfig(**content["settings"]), options).go()


def versions() -> dict[str, str]:
    """What produced the numbers."""
    import accelerate
    import torch
    import transformers

    return {
        "dpw": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "accelerate": accelerate.__version__,
    }


class _Run:
    """One run: learn a task, keep it, measure every test set, and so on to the last task."""

    def __init__(self, folder: Path, config: RunConfig, options: RunOptions) -> None:
        """Load the benchmark's description and the backbone; no task is learned yet."""
        check_trackers(config.trackers)
        self.folder, self.config, self.options = folder, config, options
        self.benchmark = load_run_benchmark(config)
        self.accelerator = make_accelerator(
            mixed_precision=config.mixed_precision,
            gradient_accumulation_steps=config.gradient_accumulation,
            log_with=list(config.trackers) or None,
            project_dir=str(folder) if config.trackers else None,
        )
        self.backbone = Backbone.from_pretrained(config.model).to(self.accelerator.device)
        self.cache = PixelCache(self.backbone.preprocessing, cache_folder())
        self.log = MetricsLog(folder / "metrics.jsonl" if self.accelerator.is_main_process else None)
        self.timings = MetricsLog(folder / "timings.jsonl" if self.accelerator.is_main_process else None)
        self.evaluator = Evaluator(
            self.cache,
            self.accelerator,
            self.benchmark.setting,
            self.benchmark.merge_equal_names,
            config.evaluation_batch,
            options.should_stop,
        )

    def go(self) -> dict[str, Any]:
        """Do everything that is not yet done."""
        if self.config.trackers:
            self.accelerator.init_trackers("dpw", config={"run": str(self.config.model_dump(mode="json"))})
        files.remove_leftovers(self.folder)
        method, log_bytes = self.stored_method()
        method.reference = reference_data(self.benchmark)
        method.feature_cache = FeatureCache()
        rows = self.stored_rows()
        self.rewind(method, rows, log_bytes)
        zero_shot = self.zero_shot(method.feature_cache)
        for index, task in enumerate(self.benchmark.tasks):
            if index < len(rows):
                continue
            if index == len(method.tasks):
                self.learn(method, index)
            rows.append(self.measure(method, index, task.name))
        self.accelerator.end_training()
        return self.finish(method, rows, zero_shot)

    def rewind(self, method: Method, rows: Sequence[dict[str, Any]], model_log_bytes: int) -> None:
        """Take the log back to the last thing that was committed: a row, a model, or a training state."""
        under_way = ProgressFolder(self.folder / "progress", {})
        if len(method.tasks) > len(rows):
            under_way.clear()  # that task is learned; it only waits to be measured
            self.log.rewind(model_log_bytes)
        elif not under_way.path.exists():  # otherwise the training state knows its own place
            self.log.rewind(rows[-1]["log_bytes"] if rows else 0)

    # ------------------------------------------------------------------------------------ one task, one row

    def learn(self, method: Method, index: int) -> None:
        """Fit one task and make it part of the model folder."""
        task = self.benchmark.tasks[index]
        trainer = Trainer(
            cache=self.cache,
            accelerator=self.accelerator,
            seed=self.config.seed,
            workers=self.config.workers,
            checkpoint_seconds=self.options.checkpoint_seconds,
            log=self.log,
            watcher=self.options.watcher,
            should_stop=self.options.should_stop,
        )
        progress = ProgressFolder(self.folder / "progress", training_identity(method, task, self.config.seed))
        began = time.monotonic()
        position = trainer.fit(method, task, progress)
        self.timings.write(event="learn", task=task.name, seconds=time.monotonic() - began)
        if position.best_epoch is not None:
            self.log.write(
                event="learned", task=task.name, epoch=position.best_epoch, accuracy=position.best_accuracy
            )
        if self.accelerator.is_main_process:
            extra = {"log_bytes": self.log.position()}
            model_folder.save_model(method, self.folder / "model", extra)
            progress.clear()

    def measure(self, method: Method, index: int, name: str) -> dict[str, Any]:
        """Evaluate every test set and commit the row."""
        self.options.told(f"measuring all test sets after {name}")
        began = time.monotonic()
        tests = self.evaluator.row(method, self.benchmark.tasks)
        self.timings.write(event="measure", task=name, seconds=time.monotonic() - began)
        accuracies = [test.accuracy for test in tests]
        self.log.write(event="row", after=name, accuracy=accuracies)
        row = {
            "format": files.FORMAT,
            "after": name,
            "tests": [test.as_json() for test in tests],
            "log_bytes": self.log.position(),
            "parameters": method.parameter_count(),
        }
        if self.accelerator.is_main_process:
            files.write_json(self.row_path(index), row)
        return row

    def zero_shot(self, memory: FeatureCache) -> list[float | None]:
        """Accuracy of plain CLIP on every test set, measured once; its features are what routers look at."""
        path = self.folder / "rows" / "zero-shot.json"
        if path.exists():
            return list(files.read_json(path, "dpw run")["accuracy"])
        self.options.told("measuring plain CLIP on all test sets")
        plain = METHODS["zero-shot"](self.backbone, configure("zero-shot"))
        plain.feature_cache = memory
        row = [test.accuracy for test in self.evaluator.row(plain, self.benchmark.tasks)]
        if self.accelerator.is_main_process:
            files.write_json(path, {"format": files.FORMAT, "accuracy": row})
        return row

    # ------------------------------------------------------------------------------------- what is there

    def stored_method(self) -> tuple[Method, int]:
        """The method with the tasks learned so far, and the length of the log when they were saved."""
        model = self.folder / "model"
        if model_folder.is_model(model):
            content = model_folder.read_model(model)
            return model_folder.load_model(model, self.backbone), content["log_bytes"]
        return METHODS[self.config.method](self.backbone, method_config(self.config)), 0

    def stored_rows(self) -> list[dict[str, Any]]:
        """The rows that are finished."""
        rows: list[dict[str, Any]] = []
        while self.row_path(len(rows)).exists():
            rows.append(files.read_json(self.row_path(len(rows)), "dpw run"))
        return rows

    def row_path(self, index: int) -> Path:
        """Where a row is kept."""
        return self.folder / "rows" / f"{index:03d}.json"

    def finish(
        self, method: Method, rows: Sequence[dict[str, Any]], zero_shot: list[float | None]
    ) -> dict[str, Any]:
        """Write the results of a complete run."""
        content = results.collect(
            config=self.config.model_dump(mode="json"),
            method=method,
            benchmark=self.benchmark,
            versions=versions(),
            rows=rows,
            zero_shot=zero_shot,
            seconds=results.seconds(self.folder / "timings.jsonl"),
        )
        if self.accelerator.is_main_process:
            results.write(self.folder, content)
        return content


def check_trackers(names: Sequence[str]) -> None:
    """Refuse a tracker that is not installed; Accelerate would leave it out in silence."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise InputError(f"tracker {name!r} is not installed: pip install 'dpw[{name}]'")


def method_config(config: RunConfig) -> MethodConfig:
    """The settings of a run's method: its defaults, what suits the benchmark, the preset, the user's own."""
    settings = {**config.settings, "seed": config.seed}
    return configure(config.method, config.preset, settings, clip=config.model)


def reference_data(benchmark: LoadedBenchmark) -> ReferenceData:
    """The data from outside that a benchmark brings, for methods whose settings name none."""
    if benchmark.benchmark.outside is None:
        return ReferenceData()
    images, captions = benchmark.benchmark.outside(benchmark.seed)
    return ReferenceData(images, tuple(dict.fromkeys(captions)), Pairs(images, captions))


def load_run_benchmark(config: RunConfig) -> LoadedBenchmark:
    """The benchmark of a run with the run's own choices."""
    return load_benchmark(
        config.benchmark,
        data_root=config.data_root,
        seed=config.seed,
        shots=config.shots,
        protocol=config.protocol,
        order=config.order,
    )
