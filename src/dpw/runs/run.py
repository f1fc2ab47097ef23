"""A benchmark run: a folder that can be stopped at any moment and goes on to the same bytes."""

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from dpw.clip.backbone import Backbone
from dpw.data.pixels import PixelCache, cache_folder
from dpw.engine.devices import is_main_process, make_accelerator, with_threads
from dpw.engine.evaluation import Evaluator
from dpw.engine.training import Trainer, training_identity
from dpw.errors import InputError
from dpw.methods import METHODS, Method, MethodConfig, configure
from dpw.methods.config import build, stored
from dpw.methods.feature_cache import FeatureCache
from dpw.runs.checks import (
    check_before_learning,
    conditions,
    digests,
    refuse_changed_data,
    refuse_other_tasks,
)
from dpw.runs.config import (
    UNNAMED,
    RunConfig,
    RunOptions,
    check_trackers,
    default_model,
    load_run_benchmark,
    where_written,
)
from dpw.runs.notices import comparable_notice
from dpw.runs.opening import method_config, reference_data
from dpw.runs.provenance import changed, data_digests, environment, versions
from dpw.runs.results import collect
from dpw.storage import model_folder
from dpw.storage.checkpoint import TrainingCheckpoint
from dpw.storage.lock import writing
from dpw.storage.logs import MetricsLog
from dpw.storage.run_folder import RunFolder


def run_benchmark(
    benchmark: str | Path,
    *,
    output: str | Path,
    method: str = "dpw",
    model: str | Path | None = None,
    seed: int = 0,
    preset: str = "default",
    settings: Mapping[str, Any] | None = None,
    data_root: str | Path | None = None,
    protocol: str | None = None,
    shots: int | None = None,
    order: Sequence[str] | None = None,
    shot_lists: str | Path | None = None,
    rebuild_splits: bool = False,
    options: RunOptions | None = None,
) -> dict[str, Any]:
    """Let a method learn the tasks of a benchmark, and measure every test set after every task.

    Args:
        benchmark: a name (`dpw benchmarks` lists them) or a YAML file.
        output: the folder of the run; a run that was interrupted there goes on, a finished one is only read.
        method, preset, settings: a method by name (`dpw methods` lists them), a named set of its settings,
            and single ones over it by dotted name.
        model: the CLIP: `mini`, a folder, a hub name; needed for every benchmark but `mini`.
        seed: decides splits, draws and training.
        data_root: the folder of the public datasets.
        protocol, shots, order: `coop` or `zscl`, training images of each class, and task names (fewer make
            a shorter run) instead of the benchmark's own.
        shot_lists: a folder of published few-shot lists, used for the datasets it has lists for.
        rebuild_splits: make split files anew where they are missing; these are not the published splits.
        options: a callback, a request to stop, the time between checkpoints.

    Returns:
        The content of `results.json`: `accuracy` (the matrix), `zero_shot`, `metrics`, `parameters` and more.

    Raises:
        InputError: something that was given cannot be used, or the folder belongs to another run.
        DamagedFileError: a file of the run was changed or cut off.
        StorageError: the disk is full or the folder read-only.
        Interrupted: `options.should_stop` said so; the same call goes on.

    Example:
        >>> import dpw, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found = dpw.run_benchmark("mini", method="zero-shot", order=["signs"], output=folder)
        >>> found["tasks"], found["accuracy"] == [found["zero_shot"]]
        (['signs'], True)
    """
    clip = default_model(str(benchmark)) if model is None else str(model)
    if clip is None:
        raise InputError("say which CLIP to use: model='openai/clip-vit-base-patch16', a folder, or 'mini'")
    root = None if data_root is None else str(data_root)
    learned = {"model": clip, "method": method, "preset": preset, "settings": dict(settings or {})}
    lists = None if shot_lists is None else str(shot_lists)
    draws = {"shots": shots, "shot_lists": lists, "rebuild_splits": rebuild_splits}
    data = {"data_root": root, "protocol": protocol, "order": order, **draws}
    config = build(RunConfig, {"benchmark": str(benchmark), "seed": seed, **learned, **data})
    return start_run(config, Path(output), options)


def start_run(config: RunConfig, folder: Path, options: RunOptions | None = None) -> dict[str, Any]:
    """Begin a run in a new folder, or go on with the same run in an old one; gives the results."""
    files = RunFolder(folder)
    if not files.started:
        files.refuse_unless_empty()
    with _only_writer(folder):
        if files.started and not _may_begin_anew(files, config):
            files.refuse_other(config.model_dump(mode="json"), UNNAMED)
            return _resume(files, replace(options or RunOptions(), allow_download=True))
        if not files.started:
            files.refuse_unless_empty()
        method = method_config(config)
        run = _Run(files, config, method, options or RunOptions())
        run.check()  # finds mistakes before anything is written
        run.accelerator.wait_for_everyone()
        if run.accelerator.is_main_process:
            files.write_run(
                {
                    "settings": config.model_dump(mode="json"),
                    "method_config": method.model_dump(mode="json"),
                    "versions": versions(),
                    "provenance": environment(run.accelerator.device),
                    "benchmark": conditions(run.benchmark),
                    "data": digests(run.benchmark),
                    "directory": str(Path.cwd()),
                    "threads": torch.get_num_threads(),
                }
            )
        return run.go()


def _may_begin_anew(files: RunFolder, config: RunConfig) -> bool:
    """Whether a corrected command may take over the folder of a run that has not learned anything yet."""
    return files.untouched and files.read_run()["settings"] != config.model_dump(mode="json")


def resume_run(folder: Path, options: RunOptions | None = None) -> dict[str, Any]:
    """Go on with a run from where it stands; a finished run only gives its results."""
    files = RunFolder(folder)
    files.read_run()  # a folder that is no run is refused before anything is made in it
    with _only_writer(folder):
        return _resume(files, options)


def _resume(files: RunFolder, options: RunOptions | None) -> dict[str, Any]:
    """Go on with a run whose lock is held."""
    files.refuse_incomplete()
    content = files.read_run()
    config = build(RunConfig, content["settings"])
    if config.method not in METHODS:
        raise InputError(f"{files.path} is a run of method {config.method!r}, which this dpw does not have")
    if files.finished:
        return files.checked_results()
    method = stored(METHODS[config.method].config_class, content["method_config"])
    with with_threads(content.get("threads")):
        run = _Run(files, config, method, options or RunOptions(), content.get("directory"))
        refuse_changed_data(files.path, content, run.benchmark)
        if files.untouched:
            run.check()
        return run.go()


def _only_writer(folder: Path) -> AbstractContextManager[Any]:
    """The lock of a run's folder; of several processes that share a run, the main one holds it."""
    return writing(folder) if is_main_process() else nullcontext()


class _Run:
    """One run: learn a task, keep it, measure every test set, and so on to the last task."""

    def __init__(
        self,
        folder: RunFolder,
        config: RunConfig,
        method_settings: MethodConfig,
        options: RunOptions,
        directory: str | None = None,
    ) -> None:
        """Load the benchmark's description and the backbone; paths are as written in `directory`."""
        check_trackers(config.trackers)
        self.folder, self.config, self.options = folder, config, options
        self.method_settings = method_settings
        self.benchmark = load_run_benchmark(config, directory)
        self.accelerator = make_accelerator(
            mixed_precision=config.mixed_precision,
            gradient_accumulation_steps=config.gradient_accumulation,
            log_with=list(config.trackers) or None,
            project_dir=str(folder.path) if config.trackers else None,
        )
        clip, named_now = where_written(config.model, directory), not folder.started
        backbone = Backbone.from_pretrained(clip, allow_download=named_now or options.allow_download)
        self.backbone = backbone.to(self.accelerator.device)
        self.cache = PixelCache(self.backbone.preprocessing, cache_folder())
        self.log = folder.metrics if self.accelerator.is_main_process else MetricsLog()
        self.timings = folder.timings if self.accelerator.is_main_process else MetricsLog()
        self.evaluator = Evaluator(
            self.cache,
            self.accelerator,
            self.benchmark.setting,
            self.benchmark.merge_equal_names,
            config.evaluation_batch,
            options.should_stop,
        )

    def check(self) -> None:
        """Read every image once and look at all that the settings name, before anything is learned."""
        self.options.on_message("reading all images once")
        given = reference_data(self.benchmark)
        stop = self.options.should_stop
        check_before_learning(self.benchmark, self.method_settings, given, self.cache, stop)

    def go(self) -> dict[str, Any]:
        """Do everything that is not yet done."""
        if self.config.trackers:
            self.accelerator.init_trackers("dpw", config={"run": str(self.config.model_dump(mode="json"))})
        method, stored = self.stored_method()
        method.reference = reference_data(self.benchmark)
        method.feature_cache = FeatureCache()
        rows = self.folder.read_rows()
        refuse_other_tasks(self.folder.path, method, rows, self.benchmark)
        self.rewind(method, rows, stored)
        if not rows and not method.tasks:
            self.notify(method)
        zero_shot = self.zero_shot(method.feature_cache)
        for index, task in enumerate(self.benchmark.tasks):
            if index < len(rows):
                continue
            if index == len(method.tasks):
                self.learn(method, index)
            rows.append(self.measure(method, index, task.name))
        self.accelerator.end_training()
        return self.finish(method, rows, zero_shot)

    def notify(self, method: Method) -> None:
        """Say what somebody should know before this run begins."""
        notices = method.notices()
        if found := comparable_notice(self.config, self.benchmark.name, self.benchmark.protocol):
            notices.append(found)
        for notice in notices:
            self.options.on_message(notice)

    def stored_method(self) -> tuple[Method, Mapping[str, Any]]:
        """The method with the tasks learned so far, and the model's JSON, which knows the log's length."""
        model = self.folder.model
        if model_folder.is_model(model):
            method = model_folder.load_model(model, lambda kind, config, _: kind(self.backbone, config))
            return method, model_folder.read_model(model)
        return METHODS[self.config.method](self.backbone, self.method_settings), {}

    def rewind(self, method: Method, rows: Sequence[Mapping[str, Any]], model: Mapping[str, Any]) -> None:
        """Take the log back to the last thing that was committed: a row, a model, or a checkpoint."""
        checkpoint = TrainingCheckpoint(self.folder.checkpoint, {})
        if len(method.tasks) > len(rows):
            checkpoint.clear()  # that task is learned; it only waits to be measured
            self.log.rewind(model["log_bytes"], model.get("log_sha256"))
        elif not checkpoint.exists:  # otherwise the checkpoint knows the log's length
            last: Mapping[str, Any] = rows[-1] if rows else {"log_bytes": 0}
            self.log.rewind(last["log_bytes"], last.get("log_sha256"))

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
            callback=self.options.callback,
            should_stop=self.options.should_stop,
        )
        identity = training_identity(method, task, self.config.seed)
        checkpoint = TrainingCheckpoint(self.folder.checkpoint, identity)
        began = time.monotonic()
        position = trainer.fit(method, task, checkpoint)
        self.timings.write(event="learn", task=task.name, seconds=time.monotonic() - began)
        if position.best_epoch is not None:
            self.log.write(
                event="learned", task=task.name, epoch=position.best_epoch, accuracy=position.best_accuracy
            )
        if self.accelerator.is_main_process:
            log = {"log_bytes": self.log.position(), "log_sha256": self.log.digest()}
            model_folder.save_model(method, self.folder.model, log)
            checkpoint.clear()

    def measure(self, method: Method, index: int, name: str) -> dict[str, Any]:
        """Evaluate every test set and commit the row."""
        self.options.on_message(f"measuring all test sets after {name}")
        began = time.monotonic()
        tests = self.evaluator.row(method, self.benchmark.tasks)
        self.timings.write(event="measure", task=name, seconds=time.monotonic() - began)
        self.log.write(event="row", after=name, accuracy=[test.accuracy for test in tests])
        row = {
            "after": name,
            "tests": [test.as_json() for test in tests],
            "log_bytes": self.log.position(),
            "log_sha256": self.log.digest(),
            "parameters": method.parameter_count(),
        }
        if self.accelerator.is_main_process:
            self.folder.write_row(index, row)
        return row

    def zero_shot(self, features: FeatureCache) -> list[float | None]:
        """Accuracy of plain CLIP on every test set, measured once; its features are what routers look at."""
        stored = self.folder.read_zero_shot()
        if stored is not None:
            return stored
        self.options.on_message("measuring plain CLIP on all test sets")
        plain = METHODS["zero-shot"](self.backbone, configure("zero-shot"))
        plain.feature_cache = features
        row = [test.accuracy for test in self.evaluator.row(plain, self.benchmark.tasks)]
        if self.accelerator.is_main_process:
            self.folder.write_zero_shot(row)
        return row

    def finish(
        self, method: Method, rows: Sequence[Mapping[str, Any]], zero_shot: Sequence[float | None]
    ) -> dict[str, Any]:
        """Write the results of a complete run."""
        content = collect(
            config=self.config,
            method=method,
            benchmark=self.benchmark,
            rows=rows,
            zero_shot=zero_shot,
            steps=self.folder.read_steps(),
            provenance=self.provenance(),
        )
        if self.accelerator.is_main_process:
            self.folder.write_results(content)
        return content

    def provenance(self) -> dict[str, Any]:
        """What the run stands on, and what changed when it was resumed elsewhere or by another version."""
        now = environment(self.accelerator.device)
        started = self.folder.read_run().get("provenance", now)
        return {
            **started,
            "changed": changed(started, now),
            "clip": self.backbone.fingerprint(),
            "data": data_digests(self.benchmark.tasks),
        }
