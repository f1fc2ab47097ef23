"""Making the paper's tables again: plan the runs, do what is missing, set the results beside the paper."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpw.benchmarks import get_benchmark, load_benchmark
from dpw.clip.backbone import Backbone
from dpw.data.public import get_dataset
from dpw.methods import METHODS, PRESETS
from dpw.methods.parts.steps import steps_of
from dpw.runs.config import EMBEDDED, MINI, RunConfig
from dpw.runs.estimate import Measured, measure
from dpw.runs.gathering import Spread, spread
from dpw.runs.opening import method_config
from dpw.runs.paper_tables import TABLES, Line, lines_of, refuse_unknown_table
from dpw.runs.published import printed_seconds
from dpw.storage.files import slug
from dpw.storage.run_folder import RunFolder

PLAIN, OFFICIAL = "zero-shot", "official"  # a method, and a preset
PAPER_CLIP = "openai/clip-vit-base-patch16"
METRICS = ("transfer", "avg", "last")
# Data beyond the tasks that a method cannot do without, by the setting that names it.
NEEDED = {"zscl": ("reference_images", "reference_sentences"), "gift": ("synthetic",)}
USED = NEEDED | {"moe-adapters": ("reference_images",)}  # what it does with, if it is given
# The form of the embedded benchmark that asks the same question; no two of its tasks share a class name.
STAND_INS = {"mtil-order2": "mini-order2", "odcl-cil": "mini-cil", "odcl-cil-merged": "mini-cil"}


@dataclass(frozen=True)
class Reproduction:
    """What is to be made again, on which benchmark and CLIP, and where the runs lie.

    `mini` does everything on the embedded benchmark; `official` lays the settings of the published code below
    every row whose method has such a preset; `given` are settings that name data beyond the tasks, used by
    the methods that have them.
    """

    table: str
    output: Path
    model: str = PAPER_CLIP
    data_root: str | None = None
    seeds: tuple[int, ...] = (1,)
    mini: bool = False
    official: bool = False
    given: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a table that the paper does not have."""
        refuse_unknown_table(self.table)

    def runs(self) -> "list[PlannedRun]":
        """Every run of the table, for every seed, each once."""
        runs = [PlannedRun(self, line, seed) for line in lines_of(self.table) for seed in self.seeds]
        return list({run.folder: run for run in runs}.values())


@dataclass(frozen=True)
class PlannedRun:
    """One run of a table."""

    plan: Reproduction
    line: Line
    seed: int

    @property
    def preset(self) -> str:
        """The preset, on top of the settings of the method's published code where these are wanted."""
        preset = self.line.preset
        if not self.plan.official or OFFICIAL not in PRESETS[self.line.method]:
            return preset
        return OFFICIAL if preset == "default" else f"{OFFICIAL}+{preset}"

    @property
    def config(self) -> RunConfig:
        """The run as `dpw run` would be asked for it."""
        used = USED.get(self.line.method, ())
        data = {name: value for name, value in self.plan.given.items() if name in used}
        shots = get_benchmark(self.line.benchmark).shots
        where: dict[str, Any] = {"benchmark": STAND_INS.get(self.line.benchmark, MINI), "model": MINI}
        where["shots"] = shots
        if not self.plan.mini:
            where = {"benchmark": self.line.benchmark, "model": self.plan.model}
            where |= {"protocol": self.line.protocol, "data_root": self.plan.data_root}
        return RunConfig(
            method=self.line.method,
            preset=self.preset,
            settings={**self.line.settings, **data},
            seed=self.seed,
            **where,
        )

    @property
    def conditions(self) -> list[str]:
        """Benchmark, protocol and number of images a class, as far as they are chosen."""
        config = self.config
        shots = None if config.shots is None else f"{config.shots}-shot"
        return [part for part in (config.benchmark, config.protocol, shots) if part is not None]

    @property
    def folder(self) -> Path:
        """Where it lies; tables share the runs they have in common."""
        config, place = self.config, "-".join(self.conditions)
        chosen = "".join(f"-{name}-{value}" for name, value in self.line.settings.items())
        return self.plan.output / place / slug(f"{config.method}-{config.preset}{chosen}-seed{config.seed}")

    @property
    def state(self) -> str:
        """Whether it is finished, was begun, or is missing."""
        files = RunFolder(self.folder)
        return "finished" if files.finished else "begun" if files.started else "missing"

    @property
    def lacks(self) -> list[str]:
        """Settings for data beyond the tasks that nobody gave; `mini` brings its own."""
        if self.plan.mini:
            return []
        return [name for name in NEEDED.get(self.line.method, ()) if name not in self.plan.given]

    @property
    def missing(self) -> list[str]:
        """Public datasets whose folder is not below the data root; `mini` brings its own."""
        if self.plan.mini:
            return []
        root = self.plan.data_root
        datasets = [get_dataset(source.name) for source in get_benchmark(self.line.benchmark).tasks]
        return [one.name for one in datasets if root is None or not (Path(root) / one.folder).is_dir()]

    def results(self) -> dict[str, Any] | None:
        """What it found, if it is finished."""
        files = RunFolder(self.folder)
        return files.read_results() if files.finished else None


@dataclass(frozen=True)
class Estimate:
    """What a run asks for: images, steps, and about how long on this machine and how much memory."""

    run: PlannedRun
    train: int
    test: int
    steps: int
    measured: Measured
    tasks: int

    @property
    def seconds(self) -> float:
        """Training, and measuring every test set after every task.

        Plain CLIP passes each test image once, a method that keeps tasks apart about twice, others once after
        every task; before a task its images are passed once.
        """
        kind = METHODS[self.run.line.method]
        if kind.name == PLAIN:
            return self.test * self.measured.image
        passes = 2 if kind.isolated else self.tasks + 1
        return self.steps * self.measured.step + (self.train + passes * self.test) * self.measured.image


def sizes(config: RunConfig) -> dict[str, tuple[int, int, int]]:
    """Classes, training and test images of every task, from the description where no data is needed."""
    if config.benchmark in EMBEDDED:
        tasks = load_benchmark(MINI, seed=config.seed, shots=config.shots).tasks
        return {t.name: (len(t.classes), len(t.train), len(t.test or ())) for t in tasks}
    known, found = get_benchmark(config.benchmark), {}
    for source in known.tasks:
        size = source.sizes(config.protocol or known.protocol)
        classes, train = size["classes"] or 0, size["train"] or 0
        train = train if known.shots is None else min(train, classes * known.shots)
        found[source.name] = (classes, train, size["test"] or 0)
    return found


def estimate(runs: Sequence[PlannedRun]) -> list[Estimate]:
    """Measure a few steps of every kind of run once, and reckon from them."""
    backbones: dict[str, Backbone] = {}
    known: dict[str, Measured] = {}
    found = []
    for run in runs:
        config = run.config
        if config.model not in backbones:
            backbones[config.model] = Backbone.from_pretrained(config.model)
        each, settings = sizes(config), method_config(config)
        classes = int(statistics.median(size[0] for size in each.values()))
        key = f"{config.method} {config.preset} {config.settings} {config.model} {classes}"
        if key not in known:
            plain = settings.model_copy(update=dict.fromkeys(run.plan.given.keys() & config.settings.keys()))
            known[key] = measure(config.method, plain, backbones[config.model], classes)
        steps = sum(steps_of(settings.training, name, size[1]) for name, size in each.items())
        train, test = (sum(size[part] for size in each.values()) for part in (1, 2))
        steps = steps if METHODS[config.method].trains else 0
        found.append(Estimate(run, train, test, steps, known[key], len(each)))
    return found


def carry_out(
    plan: Reproduction, start: Callable[[RunConfig, Path], Any], say: Callable[[str], None]
) -> None:
    """Do every run that is not finished; one that lacks data is left out, with a sentence."""
    for run in plan.runs():
        if run.lacks:
            wanted = " and ".join(f"--{name.replace('_', '-')}" for name in run.lacks)
            say(f"{run.line.label} is left out: it needs {wanted}")
        elif run.state != "finished":
            start(run.config, run.folder)


# ------------------------------------------------------------------------------------------------- the table


def result_rows(plan: Reproduction, name: str) -> list[list[str]]:
    """One table of the paper beside what was found: a header, and a row for each line."""
    header = ["row", "benchmark", "protocol", "seeds"]
    header += [f"{metric} {part}" for metric in METRICS for part in ("found", "printed", "difference")]
    rows = [[*header, "learned", "learned printed", "measuring, s", "measuring printed, s"]]
    for line in TABLES[name].lines:
        runs = [PlannedRun(plan, line, seed) for seed in plan.seeds]
        found = [results for run in runs if (results := run.results())]
        seconds = printed_seconds(name, line.method, line.preset)
        rows.append([*_row(runs[0], found), str(seconds or "-")])
    return rows


def _row(run: PlannedRun, found: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line; on another benchmark than the paper's a difference would say nothing."""
    line, config = run.line, run.config
    benchmark = config.benchmark if config.shots is None else f"{config.benchmark}, {config.shots}-shot"
    cells = [line.label, benchmark, config.protocol or "coop", str(len(found))]
    for metric in METRICS:
        own = spread([one["metrics"][metric] for one in found]) if found else None
        printed = None if line.printed is None else float(getattr(line.printed, metric))
        difference = None if own is None or printed is None or run.plan.mini else own.mean - printed
        cells += [_shown(own), _shown(printed), _shown(difference)]
    learned = f"{found[0]['parameters']:,}" if found else "-"
    millions = None if line.printed is None else line.printed.parameters
    seconds = spread([one["seconds"]["measure"] for one in found]) if found else None
    return [*cells, learned, "-" if millions is None else f"{millions:.1f} M", _shown(seconds)]


def result_notes(plan: Reproduction, name: str) -> list[str]:
    """What a reader of a table should know: what was compared, and remarks on printed rows."""
    notes = []
    if plan.mini:
        notes.append(
            "Found on the embedded benchmark, printed for CLIP ViT-B/16 on the paper's: a difference between "
            "found and printed would say nothing, one between two rows may."
        )
    noted = [line for line in TABLES[name].lines if line.printed is not None and line.printed.note]
    return [*notes, *(f"{line.label}: {line.printed.note}." for line in noted if line.printed)]


def _shown(value: float | Spread | None) -> str:
    """One decimal, or a dash."""
    if value is None:
        return "-"
    return f"{value:.1f}" if isinstance(value, float) else str(value)
