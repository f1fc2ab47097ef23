"""`dpw run` and `resume`: benchmarks with one command."""

import itertools
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpw.cli.cluster import (
    Cluster,
    ClusterPlace,
    Processes,
    Reuse,
    Threads,
    refuse_mixed,
    run_on_cluster,
)
from dpw.cli.learn import AllowDownload, CheckpointSeconds, Json, parse_settings
from dpw.cli.output import say, say_error, say_text
from dpw.cli.public_data import data_root_for, may_rebuild
from dpw.cli.run_options import (
    Benchmark,
    ClipName,
    DataRoot,
    GradientAccumulation,
    Jobs,
    MethodNames,
    MixedPrecision,
    Order,
    Output,
    Presets,
    Protocol,
    RebuildSplits,
    Seed,
    Seeds,
    SetOptions,
    ShotLists,
    Shots,
    Track,
    Workers,
)

if TYPE_CHECKING:
    from dpw.runs.config import RunConfig

RANK = "RANK"  # set by launchers of processes that share a training
MINI_METHODS = "zero-shot,finetune,dpw"
SHOT_METHODS = "zero-shot,linear-probe,diki,dpw"
# Shown below `--help`; every line is a paragraph, or it would run into the next.
SETTINGS = """Settings that people change (--set NAME=VALUE):

training.epochs, training.iterations, training.batch_size: length of a task

training.learning_rate, training.optimizer, training.schedule: how fast it learns

prefix_length, adapter_rank: size of what a task adds (dpw)

gate: from which weight on prefixes are not filtered (dpw, diki)

decision: per-image, or batch-vote as in the published code

All settings of a method, with defaults and meaning: dpw methods NAME"""


def run(
    benchmark: Benchmark,
    method: MethodNames = None,
    model: ClipName = None,
    output: Output = None,
    seed: Seed = None,
    seeds: Seeds = None,
    preset: Presets = "default",
    settings: SetOptions = None,
    data_root: DataRoot = None,
    protocol: Protocol = None,
    shots: Shots = None,
    order: Order = None,
    shot_lists: ShotLists = None,
    rebuild_splits: RebuildSplits = False,
    mixed_precision: MixedPrecision = "no",
    gradient_accumulation: GradientAccumulation = 1,
    workers: Workers = 0,
    track: Track = None,
    cluster: Cluster = None,
    reuse: Reuse = None,
    threads: Threads = None,
    processes: Processes = None,
    checkpoint_seconds: CheckpointSeconds = 30.0,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Run methods through a benchmark and measure every test set after every task."""
    many_seeds = parse_seeds(seed, seeds)
    many_shots: list[int] | list[None] = [None] if shots is None else _numbers("--shots", shots)
    usual = MINI_METHODS if _is_embedded(benchmark) else "dpw"
    chosen = (SHOT_METHODS if len(many_shots) > 1 else usual) if method is None else method
    methods, presets = _names("--method", chosen), _names("--preset", preset)
    common = {
        "benchmark": benchmark,
        "model": model or _default_model(benchmark),
        "settings": parse_settings(settings),
        "data_root": data_root_for(benchmark, data_root),
        "protocol": protocol,
        "order": None if order is None else order.split(","),
        "shot_lists": None if shot_lists is None else str(shot_lists),
        "rebuild_splits": rebuild_splits and may_rebuild(benchmark, protocol),
        "mixed_precision": mixed_precision,
        "gradient_accumulation": gradient_accumulation,
        "workers": workers,
        "trackers": track or [],
    }
    base = output or Path("runs") / Path(benchmark).stem
    grid = itertools.product(methods, presets, many_shots, many_seeds)
    planned = _planned(common, list(grid), base, output is None)
    refuse_mixed(cluster, threads, processes, jobs, track)
    checked = _all_checked(planned, jobs, base if len(many_shots) > 1 else None)
    if cluster is None:
        found = _all(checked, base, checkpoint_seconds, jobs, reuse)
    else:
        place = ClusterPlace(cluster, base, reuse, threads, processes, checkpoint_seconds)
        found = run_on_cluster(checked, place)
    _show(found, as_json)
    if len(many_shots) > 1:
        _draw_shots(found, base, as_json)


def _all_checked(
    planned: list[tuple[dict[str, Any], Path]], jobs: int | None, pictures: Path | None
) -> "list[tuple[RunConfig, Path]]":
    """Every run with its folder, all of them checked before the first begins."""
    if pictures is not None:
        _refuse_foreign_pictures(pictures)
    checked = [(_checked(values), folder) for values, folder in planned]
    _refuse_lonely_jobs(jobs, checked)
    return checked


def _refuse_lonely_jobs(jobs: int | None, runs: "Sequence[tuple[RunConfig, Path]]") -> None:
    """Refuse to do a single run side by side whose tasks need each other."""
    from dpw import InputError
    from dpw.methods.catalog import catalog

    config = runs[0][0]
    if jobs is not None and len(runs) == 1 and not catalog()[config.method].isolated:
        raise InputError(
            f"--jobs {jobs} has no effect on a single run of {config.method}, whose tasks need each other: "
            "leave it out"
        )


def _refuse_foreign_pictures(folder: Path) -> None:
    """Files of others where the picture of several shots will lie are known before anything runs."""
    from dpw.report.shots import refuse_foreign

    refuse_foreign(folder)


def _draw_shots(found: list[dict[str, Any]], folder: Path, as_json: bool) -> None:
    """Accuracy over images per class, as a picture and a table beside the runs."""
    from dpw.report.shots import write_shots

    say(f"accuracy over images per class: {write_shots(found, folder)}", err=as_json)


def _run_name(method: str, preset: str, shots: int | None, seed: int) -> str:
    """The folder of one run among several."""
    own = method if preset == "default" else f"{method}-{preset.replace('/', '-')}"
    few = "" if shots is None else f"-shots{shots}"
    return f"{own}{few}-seed{seed}"


def _planned(
    common: dict[str, Any], grid: Sequence[tuple[str, str, int | None, int]], base: Path, apart: bool
) -> list[tuple[dict[str, Any], Path]]:
    """The settings and the folder of every run; several runs, or runs `apart`, have folders of their own."""
    found = []
    for method, preset, shots, seed in grid:
        own = _run_name(method, preset, shots, seed)
        values = {**common, "method": method, "preset": preset, "shots": shots, "seed": seed}
        found.append((values, base / own if len(grid) > 1 or apart else base))
    return found


def _all(
    planned: "list[tuple[RunConfig, Path]]",
    base: Path,
    checkpoint_seconds: float,
    jobs: int | None,
    reuse: Path | None,
) -> list[dict[str, Any]]:
    """All runs, one after another or side by side, with their tasks if they need no other."""
    from dpw.cli.side_by_side import run_side_by_side

    at_once = jobs or _at_once([config for config, _ in planned])
    if at_once == 1:
        return [run_in_terminal(config, folder, checkpoint_seconds, reuse) for config, folder in planned]
    return run_side_by_side(planned, base, at_once, reuse, checkpoint_seconds)


def _at_once(configs: "Sequence[RunConfig]") -> int:
    """How many processes share the runs if nobody says so: several where CLIP is small."""
    from dpw.data.cores import usable_cores
    from dpw.methods.catalog import catalog

    small = all(config.model == "mini" for config in configs) and RANK not in os.environ
    first = configs[0].method  # plain CLIP has nothing to learn
    alone = len(configs) == 1 and (first == "zero-shot" or not catalog()[first].isolated)
    return usable_cores() if small and not alone else 1


def parse_seeds(seed: int | None, seeds: str | None) -> list[int]:
    """The seeds of the runs: one, or several as `1,2,3`."""
    from dpw import InputError

    if seeds is None:
        return [seed or 0]
    if seed is not None:
        raise InputError(f"--seed {seed} has no effect beside --seeds {seeds}: give one of the two")
    found = _numbers("--seeds", seeds)
    if min(found) < 0:
        raise InputError(f"--seeds {seeds} has a number below 0: give whole numbers from 0 on")
    return found


def _names(option: str, text: str) -> list[str]:
    """Different names given as `a,b`; two equal ones would be one run twice in the same folder."""
    from dpw import InputError

    found = text.split(",")
    if "" in found or len(set(found)) != len(found):
        raise InputError(f"{option} {text!r} names nothing or something twice: give each once, as in a,b")
    return found


def _numbers(option: str, text: str) -> list[int]:
    """Different whole numbers given as `1,2,3`."""
    from dpw import InputError

    try:
        found = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(f"{option} {text!r} is no list of whole numbers such as 1,2,3") from error
    if len(set(found)) != len(found):
        raise InputError(f"{option} {text} names a number twice: give each once")
    return found


def _is_embedded(benchmark: str) -> bool:
    """Whether a benchmark is a form of the embedded one."""
    from dpw.runs.config import EMBEDDED

    return benchmark in EMBEDDED


def _default_model(benchmark: str) -> str:
    """The CLIP of a benchmark that brings one."""
    from dpw import InputError
    from dpw.benchmarks import get_benchmark
    from dpw.runs.config import default_model

    get_benchmark(benchmark)  # a name that does not exist is the first thing to say
    found = default_model(benchmark)
    if found is None:
        raise InputError("say which CLIP to use: --model openai/clip-vit-base-patch16, a folder, or mini")
    return found


def _checked(values: dict[str, Any]) -> "RunConfig":
    """What is asked of one run, from plain values; what does not exist is refused before anything runs."""
    from dpw.methods.config import build
    from dpw.runs.config import RunConfig, refuse_early

    config = build(RunConfig, values)
    refuse_early(config)
    return config


def run_in_terminal(
    config: "RunConfig", folder: Path, checkpoint_seconds: float = 30.0, reuse: Path | None = None
) -> dict[str, Any]:
    """One run, or what is left of it, with a progress bar."""
    from dataclasses import replace

    from dpw.runs.run import start_run

    def work(options: Any) -> dict[str, Any]:
        """Start it, with the learned tasks of a folder if one is given."""
        return start_run(config, folder, replace(options, reuse=reuse))

    return _with_terminal(folder, checkpoint_seconds, work)


def _with_terminal(folder: Path, checkpoint_seconds: float, work: Any) -> dict[str, Any]:
    """Carry a run out with a progress bar; a stop is answered with the way to go on."""
    from dpw import Interrupted
    from dpw.cli.terminal import TerminalCallback, exit_code, stopping
    from dpw.engine.memory import pass_over_imported
    from dpw.runs.config import RunOptions

    pass_over_imported()
    callback = TerminalCallback()
    with stopping() as request:
        options = RunOptions(
            checkpoint_seconds, callback, request, on_message=callback.on_message, on_notice=say_error
        )
        try:
            result: dict[str, Any] = work(options)
        except Interrupted as stopped:
            say_error(f"{stopped}; continue with: dpw resume {folder}")
            raise typer.Exit(exit_code(request)) from stopped
    return {**result, "folder": str(folder)}


def resume(
    folder: Annotated[Path, typer.Argument(help="The folder of a run.")],
    checkpoint_seconds: CheckpointSeconds = 30.0,
    allow_download: AllowDownload = False,
    as_json: Json = False,
) -> None:
    """Go on with an interrupted run; it ends as if it had never stopped."""
    from dataclasses import replace

    from dpw.storage.run_folder import RunFolder

    RunFolder(folder).read_run()  # a folder that is no run is refused before torch is there
    from dpw.runs.run import resume_run

    def work(options: Any) -> dict[str, Any]:
        """Resume, with the network only if it is allowed."""
        return resume_run(folder, replace(options, allow_download=allow_download))

    _show([_with_terminal(folder, checkpoint_seconds, work)], as_json)


def _show(results: list[dict[str, Any]], as_json: bool) -> None:
    """The table of what was found; of several processes that share a training only the first speaks."""
    if os.environ.get(RANK, "0") != "0":
        return
    if as_json:
        say_text(json.dumps(results if len(results) > 1 else results[0], indent=2))
        return
    from dpw.runs.gathering import MAIN_METRICS

    first = results[0]
    say(f"{first['benchmark']}, {first['setting']}, protocol {first['protocol']}, CLIP {first['model']}")
    by_shots = len({result["shots"] for result in results}) > 1
    heading = f"{'shots':>7}" if by_shots else ""
    widths = {name: max(8, len(name) + 2) for name in MAIN_METRICS}  # the table fits 80 columns
    names = "".join(f"{name:>{width}}" for name, width in widths.items())
    say(f"{'method':<13}{heading}{'seed':>5}{names}{'learned':>11}")
    for result in results:
        values = "".join(f"{_percent(result['metrics'][n]):>{width}}" for n, width in widths.items())
        few = f"{result['shots']:>7}" if by_shots else ""
        say(f"{result['method']:<13}{few}{result['seed']:>5}{values}{result['parameters']:>11,}")
    for result in results:
        say(f"{result['method']}: {result['folder']}/results.json")


def _percent(value: float | None) -> str:
    """One decimal, or a dash."""
    return "-" if value is None else f"{value:.1f}"
