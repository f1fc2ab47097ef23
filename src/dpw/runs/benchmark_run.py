"""The work of one run: learn a task, keep it, measure every test set, and so on to the last task."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from dpw.clip.backbone import Backbone
from dpw.data.pixels import PixelCache, cache_folder
from dpw.data.task import Task
from dpw.engine.callbacks import never
from dpw.engine.devices import make_accelerator
from dpw.engine.evaluation import Evaluator, TestResult
from dpw.engine.training import Trainer, training_identity
from dpw.methods import METHODS, Method, MethodConfig, configure
from dpw.methods.feature_cache import FeatureCache
from dpw.runs.checks import check_before_learning, digests, refuse_other_tasks
from dpw.runs.config import (
    RunConfig,
    RunOptions,
    check_trackers,
    load_run_benchmark,
    where_written,
)
from dpw.runs.notices import comparable_notice
from dpw.runs.opening import reference_data
from dpw.runs.provenance import changed, environment
from dpw.runs.results import collect
from dpw.runs.reuse import Reuse
from dpw.runs.task_store import KeptTask, TaskStore
from dpw.storage import model_folder
from dpw.storage.checkpoint import TrainingCheckpoint
from dpw.storage.lock import refuse_unwritable, waiting_to_write
from dpw.storage.logs import MetricsLog
from dpw.storage.run_folder import RunFolder

PATIENCE = 3600.0  # seconds to wait for another run that learns the very same task


class BenchmarkRun:
    """One run: learn a task, keep it, measure every test set, and so on to the last task."""

    def __init__(
        self,
        folder: RunFolder,
        config: RunConfig,
        method_settings: MethodConfig,
        options: RunOptions,
        directory: str | None = None,
        threads: int | None = None,
    ) -> None:
        """Load the benchmark's description and the backbone; paths are as written in `directory`.

        `threads` is how many the run began with; None for a new run, which takes them as they are.
        """
        check_trackers(config.trackers)
        self.folder, self.config, self.options, self.threads = folder, config, options, threads
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
        self.reuse: Reuse | None = None
        if options.reuse is not None and self.new_method().independent:
            refuse_unwritable(options.reuse)
            tasks, device = self.benchmark.tasks, self.accelerator.device
            self.reuse = Reuse(TaskStore(options.reuse), config, tasks, self.evaluator, device)

    def check(self) -> None:
        """Read every image once and look at all that the settings name, before anything is learned."""
        self.options.on_message("reading all images once")
        given, name = reference_data(self.benchmark), self.config.method
        alone = self.accelerator.num_processes == 1  # of several processes all must come to the next barrier
        stop = self.options.should_stop if alone else never
        check_before_learning(self.benchmark, name, self.method_settings, given, self.cache, stop)

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
        zero_shot = self.zero_shot(method)
        for index, task in enumerate(self.benchmark.tasks):
            if index < len(rows):
                continue
            if index == len(method.tasks):
                self.learn(method, index, rows[-1]["log_bytes"] if rows else 0)
            rows.append(self.measure(method, index, task.name))
        for tracker in self.accelerator.trackers:  # `end_training` would end the processes' ties, too
            tracker.finish()
        return self.finish(method, rows, zero_shot)

    def notify(self, method: Method) -> None:
        """Say what somebody should know before this run begins."""
        notices = method.notices()
        if found := comparable_notice(self.config, self.benchmark.name, self.benchmark.protocol):
            notices.append(found)
        for notice in notices:
            self.options.on_notice(notice)

    def new_method(self) -> Method:
        """The method as it begins, without a task."""
        method = METHODS[self.config.method](self.backbone, self.method_settings)
        method.reference = reference_data(self.benchmark)
        return method

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

    def learn(self, method: Method, index: int, begin: int) -> None:
        """Make one task part of the model folder: fitted, or taken as it was learned before.

        `begin` is where the log of this task begins.
        """
        task = self.benchmark.tasks[index]
        checkpoint = TrainingCheckpoint(self.folder.checkpoint, self.identity(method, task))
        kept = self.kept(method, index, alone=checkpoint.exists)
        if kept is not None:
            self.options.on_message(f"{task.name} was learned before and is taken from {self.options.reuse}")
            self.log.rewind(begin)
            self.log.append(kept.log)
            kept.add_to(method)
            seconds = kept.seconds
        else:
            seconds = self.fit(method, task, checkpoint, self.log)
        self.timings.write(event="learn", task=task.name, seconds=seconds)
        if self.accelerator.is_main_process:
            if self.reuse is not None and kept is None:
                self.reuse.keep(method, index, self.log.since(begin), seconds)
            log = {"log_bytes": self.log.position(), "log_sha256": self.log.digest()}
            model_folder.save_model(method, self.folder.model, log)
            checkpoint.clear()

    def kept(self, method: Method, index: int, alone: bool) -> KeptTask | None:
        """A task as it was learned before; one that a worker left half learned in the store is ended there.

        `alone` is whether this run has a checkpoint of its own for the task, from which it goes on then.
        """
        if self.reuse is None:
            return None
        one_process = self.accelerator.num_processes == 1
        if not alone and one_process and self.reuse.begun(method, index):
            self.learn_apart(self.reuse, index)
        return self.reuse.learned(method, index)

    def learn_apart(self, reuse: Reuse, index: int) -> None:
        """Learn one task into the store, from its beginning or from where its checkpoint there stands."""
        method = self.new_method()
        key = reuse.key(method, index)
        folder = reuse.store.unfinished(key)
        with waiting_to_write(folder, PATIENCE):
            if reuse.store.has(key):
                return
            checkpoint = TrainingCheckpoint(folder, reuse.identity(method, index))
            log = MetricsLog(folder / "metrics.jsonl")
            if not checkpoint.exists:
                log.rewind(0)
            seconds = self.fit(method, self.benchmark.tasks[index], checkpoint, log)
            reuse.keep(method, index, log.since(0), seconds)
            checkpoint.clear()
            (folder / "metrics.jsonl").unlink(missing_ok=True)
        with suppress(OSError):  # somebody else may have begun to wait here
            folder.rmdir()

    def identity(self, method: Method, task: Task) -> dict[str, Any]:
        """What an interrupted training must still be to go on."""
        return training_identity(method, task, self.config.seed)

    def fit(self, method: Method, task: Task, checkpoint: TrainingCheckpoint, log: MetricsLog) -> float:
        """Train one task, or what is left of it; gives the seconds it took."""
        trainer = Trainer(
            cache=self.cache,
            accelerator=self.accelerator,
            seed=self.config.seed,
            workers=self.config.workers,
            checkpoint_seconds=self.options.checkpoint_seconds,
            log=log,
            callback=self.options.callback,
            should_stop=self.options.should_stop,
        )
        began = time.monotonic()
        position = trainer.fit(method, task, checkpoint)
        if position.best_epoch is not None:
            log.write(
                event="learned", task=task.name, epoch=position.best_epoch, accuracy=position.best_accuracy
            )
        return time.monotonic() - began

    def measure(self, method: Method, index: int, name: str) -> dict[str, Any]:
        """Evaluate every test set and commit the row."""
        self.options.on_message(f"measuring all test sets after {name}")
        tests, seconds = self.tests(method, index + 1, method)
        self.timings.write(event="measure", task=name, seconds=seconds)
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

    def tests(self, method: Method, learned: int, asked: Method) -> tuple[list[TestResult], float]:
        """Every test set after some tasks were learned, and the seconds it took, now or on other machines."""
        known = None if self.reuse is None else self.reuse.row(method, learned)
        if known is not None:
            return known
        began = time.monotonic()
        return self.evaluator.row(asked, self.benchmark.tasks), time.monotonic() - began

    def zero_shot(self, method: Method) -> list[float | None]:
        """Accuracy of plain CLIP on every test set, measured once; its features are what routers look at."""
        stored = self.folder.read_zero_shot()
        if stored is not None:
            return stored
        self.options.on_message("measuring plain CLIP on all test sets")
        tests, _ = self.tests(method, 0, self.plain(method.feature_cache))
        row = [test.accuracy for test in tests]
        if self.accelerator.is_main_process:
            self.folder.write_zero_shot(row)
        return row

    def plain(self, features: FeatureCache | None) -> Method:
        """Plain CLIP, which leaves its features to whoever is asked next."""
        plain = METHODS["zero-shot"](self.backbone, configure("zero-shot"))
        plain.feature_cache = features
        return plain

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
            "data": digests(self.benchmark),
        }
