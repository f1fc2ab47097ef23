"""Search settings: a grid or random points over methods, presets, settings, seeds and shots.

A point learns the tasks of a benchmark one after the other and is judged after each on validation images; no
test image is looked at. Ray Tune runs the points and, by successive halving, ends the worse ones early: what
a point has learned so far is its rung. Points write down their scores, so that the same command goes on.
"""

import itertools
import json
import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field

from dpw.cluster.connection import slots
from dpw.cluster.grid import ignore
from dpw.cluster.sweep_progress import SweepProgress
from dpw.data.yaml_text import read_yaml
from dpw.engine.evaluation import TestResult
from dpw.errors import DpwError, InputError, Interrupted
from dpw.methods.config import Settings, build
from dpw.methods.feature_cache import FeatureCache
from dpw.methods.parts.steps import steps_of
from dpw.runs import stages
from dpw.runs.benchmark_run import BenchmarkRun
from dpw.runs.config import RunConfig, RunOptions, default_model, load_run_benchmark
from dpw.runs.estimate import Measured, measure
from dpw.runs.opening import method_config
from dpw.storage import files
from dpw.storage.checkpoint import TrainingCheckpoint
from dpw.storage.csv_file import csv_cell
from dpw.storage.logs import MetricsLog
from dpw.storage.run_folder import RunFolder

FINISHED = "finished.json"  # a sweep that has it is only read
ERROR, ENDED = ".error", ".ended"  # beside the scores of a point: why it has no more, and that it needs none
CHOICES = ("methods", "presets", "seeds", "shots")


class Range(Settings):
    """Numbers between two bounds, drawn evenly, or evenly in their logarithm."""

    low: float
    high: float
    log: bool = False

    def draw(self, source: random.Random) -> float:
        """One number."""
        if not self.log:
            return source.uniform(self.low, self.high)
        import math

        return math.exp(source.uniform(math.log(self.low), math.log(self.high)))


class Halving(Settings):
    """Successive halving: one in `factor` points goes on after every rung, the first after `first` tasks."""

    first: int = Field(1, ge=1)
    factor: float = Field(3.0, gt=1)


class SweepSpec(Settings):
    """What a sweep searches; `search: random` draws `points` of the product, a grid takes all."""

    benchmark: str
    model: str | None = None
    data_root: str | None = None
    protocol: str | None = None
    order: tuple[str, ...] | None = None
    search: Literal["grid", "random"] = "grid"
    points: int = Field(8, ge=1)
    seed: int = Field(0, ge=0)
    methods: tuple[str, ...] = ("dpw",)
    presets: tuple[str, ...] = ("default",)
    seeds: tuple[int, ...] = (0,)
    shots: tuple[int | None, ...] = (None,)
    settings: dict[str, tuple[Any, ...] | Range] = Field(default_factory=dict)
    fixed: dict[str, Any] = Field(default_factory=dict)
    halving: Halving | None = None


def read_spec(path: Path) -> SweepSpec:
    """A sweep from a YAML file; anything unknown in it is named."""
    return build(SweepSpec, read_yaml(path, "the description of a sweep"))


def points_of(spec: SweepSpec) -> list[RunConfig]:
    """All points in an order that depends on the description alone, each checked."""
    model = spec.model or default_model(spec.benchmark)
    if model is None:
        raise InputError("the sweep must say which CLIP to use, as in 'model: openai/clip-vit-base-patch16'")
    common: dict[str, Any] = {"benchmark": spec.benchmark, "model": model, "data_root": spec.data_root}
    common |= {"protocol": spec.protocol, "order": spec.order}
    found = []
    for method, preset, seed, shots, settings in _combinations(spec):
        chosen = {"method": method, "preset": preset, "seed": seed, "shots": shots}
        config = build(RunConfig, {**common, **chosen, "settings": {**spec.fixed, **settings}})
        method_config(config)  # a setting that does not exist is found before anything runs
        found.append(config)
    return found


def _combinations(spec: SweepSpec) -> list[tuple[Any, ...]]:
    """Method, preset, seed, shots and settings of every point."""
    choices: list[Sequence[Any]] = [getattr(spec, name) for name in CHOICES]
    if spec.search == "random":
        source = random.Random(spec.seed)
        return [(*(source.choice(one) for one in choices), _drawn(spec, source)) for _ in range(spec.points)]
    if ranges := [name for name, values in spec.settings.items() if isinstance(values, Range)]:
        raise InputError(f"{ranges[0]} is a range, but a grid needs a list of values: or use search: random")
    grids = [[(name, value) for value in values] for name, values in spec.settings.items()]
    settings = [dict(pairs) for pairs in itertools.product(*grids)]
    return list(itertools.product(*choices, settings))


def _drawn(spec: SweepSpec, source: random.Random) -> dict[str, Any]:
    """One value for every setting."""
    return {
        name: values.draw(source) if isinstance(values, Range) else source.choice(values)
        for name, values in spec.settings.items()
    }


# ------------------------------------------------------------------------------------------------ one point


class Point:
    """One point of a sweep in a folder of its own: its scores so far, and the way to the next ones."""

    def __init__(self, config: RunConfig, folder: Path, number: int) -> None:
        """Nothing is loaded before it is needed."""
        self.config, self.number = config, number
        self.path = folder / "points" / f"{number:04d}.json"
        self.folder = folder

    def __str__(self) -> str:
        """Its name where all points are shown."""
        return f"{self.number:04d} {self.config.method}"

    def scores(self) -> list[float]:
        """The mean accuracy on validation images of the learned tasks, after every task so far."""
        if not self.path.is_file():
            return []
        content = files.read_json(self.path, "point of a sweep")
        if content["config"] != self.config.model_dump(mode="json"):
            raise InputError(f"{self.folder} belongs to another sweep: choose another --output")
        return list(content["scores"])

    def learn(self, report: Any) -> None:
        """Learn the tasks that are missing, and report every score; `report` may end the point by raising."""
        scores, options = self.scores(), RunOptions(reuse=self.folder / "learned-tasks")
        config = self.config
        run = BenchmarkRun(RunFolder(self.path.with_suffix("")), config, method_config(config), options)
        tasks = [replace(task, test=task.val) for task in run.benchmark.tasks]
        if lacking := [task.name for task in tasks if task.test is None or not len(task.test)]:
            raise InputError(
                f"task {lacking[0]} of {config.benchmark} has no validation images to decide on: "
                "leave it out by 'order', or give it a val split"
            )
        method = run.new_method()
        method.feature_cache = FeatureCache()
        for index, task in enumerate(tasks):
            self._learn_one(run, method, index)
            if index >= len(scores):
                found = run.evaluator.row(method, tasks)[: index + 1]
                scores.append(mean_accuracy(found))
                self._keep(scores)
            report({"tasks": index + 1, "score": scores[index], "point": self.number, "task": task.name})

    def _learn_one(self, run: BenchmarkRun, method: Any, index: int) -> None:
        """One task, from the store if any point has learned it under the same conditions."""
        if run.reuse is not None:
            stages.learn(run, index, run.reuse.key(method, index))
            kept = run.reuse.learned(method, index)
            assert kept is not None, "it was just learned"
            kept.add_to(method)
            return
        task, place = run.benchmark.tasks[index], self.path.with_suffix("") / str(index)
        run.fit(method, task, TrainingCheckpoint(place, run.identity(method, task)), MetricsLog())
        TrainingCheckpoint(place, {}).clear()

    def _keep(self, scores: Sequence[float]) -> None:
        """Commit the scores."""
        config = self.config.model_dump(mode="json")
        content = {"format": files.FORMAT, "config": config, "scores": list(scores)}
        files.write_json(self.path, content)


def mean_accuracy(tests: Sequence[TestResult]) -> float:
    """The mean over test sets; one that cannot be answered counts as zero."""
    return sum(test.accuracy or 0.0 for test in tests) / len(tests)


# ------------------------------------------------------------------------------------------------- all points


def run_sweep(
    ray: Any,
    spec: SweepSpec,
    folder: Path,
    threads: int = 1,
    on_change: Callable[[Mapping[str, Any]], None] = ignore,
) -> list[dict[str, Any]]:
    """Carry a sweep out by Ray Tune, or what is left of it; gives the table, the best point first.

    Raises:
        InputError: the description is wrong, or no point could be learned.
        Interrupted: somebody pressed Ctrl-C, or workers died again and again; the same call goes on.
    """
    points = [Point(config, folder.absolute(), number) for number, config in enumerate(points_of(spec))]
    for point in points:
        point.scores()  # a folder of another sweep is refused before anything runs
    if (folder / FINISHED).is_file():
        return table(spec, folder)
    for point in points:
        for mark in (ERROR, ENDED):
            point.path.with_suffix(mark).unlink(missing_ok=True)
    tasks = len(load_run_benchmark(points[0].config).tasks)
    progress = SweepProgress(points, folder.absolute(), tasks, slots(ray, threads), on_change)
    try:
        _tuned(ray, spec, points, folder, threads, progress)
    finally:
        progress.end()
    rows = table(spec, folder)
    wrong = [row["error"] for row in rows if row["error"]]
    if len(wrong) == len(rows):
        raise InputError(wrong[0])
    ended = sum(point.path.with_suffix(ENDED).is_file() for point in points)
    if ended < len(points):
        raise Interrupted(f"stopped after {ended} of {len(points)} points")
    if not wrong:
        files.write_json(folder / FINISHED, {"format": files.FORMAT, "points": len(points)})
    return rows


def _tuned(
    ray: Any,
    spec: SweepSpec,
    points: Sequence[Point],
    folder: Path,
    threads: int,
    progress: SweepProgress,
) -> None:
    """Let Ray Tune learn the points; those that came to their end, or were ended as worse, get a mark."""
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")  # there is a display of our own
    from ray import tune
    from ray.tune.schedulers import ASHAScheduler

    scheduler = None
    if spec.halving is not None:
        rungs: dict[str, Any] = {"grace_period": spec.halving.first, "reduction_factor": spec.halving.factor}
        scheduler = ASHAScheduler(time_attr="tasks", metric="score", mode="max", max_t=10**6, **rungs)

    def trial(given: Mapping[str, Any]) -> None:
        """One point in a process of its own."""
        torch.set_num_threads(threads)
        point: Point = points[given["point"]]
        try:
            point.learn(tune.report)
        except DpwError as error:
            files.write_bytes(point.path.with_suffix(ERROR), str(error).encode())

    class Ended(tune.Callback):  # type: ignore[misc, unused-ignore]
        """Marks points; Tune itself counts one that Ctrl-C has interrupted as ended."""

        def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **_: Any) -> None:  # noqa: ARG002
            """Leave a mark beside the scores."""
            files.write_bytes(points[trial.config["point"]].path.with_suffix(ENDED), b"")

        def on_step_end(self, iteration: int, trials: Any, **_: Any) -> None:  # noqa: ARG002
            """Say how far all points are."""
            progress.tell(trials)

    gpus = 1 if ray.cluster_resources().get("GPU") else 0
    tune.Tuner(
        tune.with_resources(trial, {"cpu": threads, "gpu": gpus}),
        param_space={"point": tune.grid_search([point.number for point in points])},
        tune_config=tune.TuneConfig(scheduler=scheduler),
        run_config=tune.RunConfig(
            name="ray-tune",
            storage_path=str(folder.absolute() / ".ray"),
            verbose=0,
            callbacks=[Ended()],
            failure_config=tune.FailureConfig(max_failures=3),
        ),
    ).fit()


def cost(spec: SweepSpec) -> list[dict[str, Any]]:
    """What every point costs on one worker of this kind, from a few measured steps of every method.

    Successive halving ends most points early, so that the sum is the most that can be needed.
    """
    known: dict[str, Measured] = {}
    found = []
    for number, config in enumerate(points_of(spec)):
        settings = method_config(config)
        sized = {name: value for name, value in config.settings.items() if not isinstance(value, float)}
        key = f"{config.method} {config.preset} {sized}"  # a rate or a weight makes no step longer
        tasks = load_run_benchmark(config).tasks
        if key not in known:
            run = BenchmarkRun(RunFolder(Path(os.devnull)), config, settings, RunOptions())
            known[key] = measure(config.method, settings, run.backbone, len(tasks[0].classes))
        steps = sum(steps_of(settings.training, task.name, len(task.train)) for task in tasks)
        images = sum(len(task.train) + 2 * len(task.val or ()) for task in tasks)
        seconds = steps * known[key].step + images * known[key].image
        found.append({"point": number, "method": config.method, "preset": config.preset, "seconds": seconds})
    return found


def table(spec: SweepSpec, folder: Path) -> list[dict[str, Any]]:
    """Every point with its last score, the best of those that learned most first."""
    rows = []
    for number, config in enumerate(points_of(spec)):
        point = Point(config, folder.absolute(), number)
        scores, wrong = point.scores(), point.path.with_suffix(ERROR)
        rows.append(
            {
                "point": number,
                "method": config.method,
                "preset": config.preset,
                "seed": config.seed,
                "shots": config.shots,
                "settings": config.settings,
                "tasks": len(scores),
                "score": scores[-1] if scores else None,
                "error": wrong.read_text() if wrong.is_file() else None,
            }
        )
    return sorted(rows, key=lambda row: (-row["tasks"], -(row["score"] or 0.0), row["point"]))


def write_table(rows: Sequence[Mapping[str, Any]], folder: Path) -> Path:
    """The table as CSV beside the points."""
    import csv
    import io

    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        cells = {**row, "settings": json.dumps(row["settings"])}
        writer.writerow({name: csv_cell(value) for name, value in cells.items()})
    header = text.getvalue().splitlines()[0]
    files.refuse_foreign_file(folder / "sweep.csv", header.encode())
    files.write_bytes(folder / "sweep.csv", text.getvalue().encode())
    return folder / "sweep.csv"
