"""`dpw run`, `resume` and `methods`: benchmarks with one command."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpw.cli.learn import AllowDownload, CheckpointSeconds, Json, parse_settings
from dpw.cli.output import say, say_error

if TYPE_CHECKING:
    from dpw.runs.config import RunConfig

MINI_METHODS = "zero-shot,finetune,dpw"


def run(
    benchmark: Annotated[
        str, typer.Argument(help="A benchmark by name (see 'dpw benchmarks') or a YAML file.")
    ],
    method: Annotated[str | None, typer.Option(help="One or more methods, separated by commas.")] = None,
    model: Annotated[str | None, typer.Option(help="CLIP: mini, a folder, or a hub name.")] = None,
    output: Annotated[Path | None, typer.Option(help="Folder of the run; runs/... by default.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of splits, draws and training (0).")] = None,
    seeds: Annotated[str | None, typer.Option(help="Several seeds, as 1,2,3.")] = None,
    preset: Annotated[str, typer.Option(help="Preset of the method's settings.")] = "default",
    settings: Annotated[list[str] | None, typer.Option("--set", help="A setting, as key=value.")] = None,
    data_root: Annotated[
        Path | None, typer.Option("--data-root", envvar="DPW_DATA", help="Folder of the public datasets.")
    ] = None,
    protocol: Annotated[str | None, typer.Option(help="Protocol: coop or zscl.")] = None,
    shots: Annotated[int | None, typer.Option(help="Training images of each class.")] = None,
    order: Annotated[str | None, typer.Option(help="Task names, separated by commas.")] = None,
    shot_lists: Annotated[
        Path | None, typer.Option(help="Folder of published few-shot lists, used where it has one.")
    ] = None,
    rebuild_splits: Annotated[
        bool, typer.Option("--rebuild-splits", help="Make missing split files anew; not the published ones.")
    ] = False,
    mixed_precision: Annotated[str, typer.Option(help="no, fp16 or bf16.")] = "no",
    gradient_accumulation: Annotated[int, typer.Option(help="Batches gathered for one step.")] = 1,
    workers: Annotated[int, typer.Option(help="Processes that read images.")] = 0,
    track: Annotated[list[str] | None, typer.Option(help="tensorboard, wandb or trackio.")] = None,
    checkpoint_seconds: CheckpointSeconds = 30.0,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Runs side by side; on mini as many as there are cores.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run methods through a benchmark and measure every test set after every task."""
    methods = (method or (MINI_METHODS if benchmark in ("mini", "mini-x-tail") else "dpw")).split(",")
    many_seeds = parse_seeds(seed, seeds)
    common = {
        "benchmark": benchmark,
        "model": model or _default_model(benchmark),
        "preset": preset,
        "settings": parse_settings(settings),
        "data_root": None if data_root is None else str(data_root),
        "protocol": protocol,
        "shots": shots,
        "order": None if order is None else order.split(","),
        "shot_lists": None if shot_lists is None else str(shot_lists),
        "rebuild_splits": rebuild_splits,
        "mixed_precision": mixed_precision,
        "gradient_accumulation": gradient_accumulation,
        "workers": workers,
        "trackers": track or [],
    }
    asked = [_checked({**common, "method": name, "seed": one}) for name in methods for one in many_seeds]
    planned = [(config, _folder(config, output, several=len(asked) > 1)) for config in asked]
    _show(_all(planned, settings or [], checkpoint_seconds, jobs), as_json)


def _folder(config: "RunConfig", output: Path | None, *, several: bool) -> Path:
    """Where a run lies: the folder that was named, or one of its own in it where there are several."""
    base = output or Path("runs") / Path(config.benchmark).stem
    preset = "" if config.preset == "default" else f"-{config.preset.replace('/', '-')}"
    return base / f"{config.method}{preset}-seed{config.seed}" if several or output is None else base


def _all(
    planned: "list[tuple[RunConfig, Path]]", settings: list[str], checkpoint_seconds: float, jobs: int | None
) -> list[dict[str, Any]]:
    """All runs, one after another or side by side."""
    from dpw.cli.side_by_side import Job, run_side_by_side
    from dpw.data.cores import usable_cores

    small = all(config.model == "mini" for config, _ in planned)
    at_once = min(len(planned), jobs or (usable_cores() if small else 1))
    if at_once == 1:
        return [run_in_terminal(config, folder, checkpoint_seconds) for config, folder in planned]
    limits = ["--checkpoint-seconds", str(checkpoint_seconds)]
    started = [
        Job(folder.name, [*_arguments(config, settings), "--output", str(folder), *limits])
        for config, folder in planned
    ]
    return run_side_by_side(started, at_once)


def _arguments(config: "RunConfig", settings: list[str]) -> list[str]:
    """The command line of one run."""
    given: dict[str, Any] = {
        "method": config.method,
        "model": config.model,
        "seed": config.seed,
        "preset": config.preset,
        "data-root": config.data_root,
        "protocol": config.protocol,
        "shots": config.shots,
        "order": None if config.order is None else ",".join(config.order),
        "shot-lists": config.shot_lists,
        "mixed-precision": config.mixed_precision,
        "gradient-accumulation": config.gradient_accumulation,
        "workers": config.workers,
    }
    words = ["run", config.benchmark]
    words += [word for key, value in given.items() if value is not None for word in (f"--{key}", str(value))]
    words += [word for setting in settings for word in ("--set", setting)]
    words += [word for tracker in config.trackers for word in ("--track", tracker)]
    return [*words, *(["--rebuild-splits"] if config.rebuild_splits else [])]


def parse_seeds(seed: int | None, seeds: str | None) -> list[int]:
    """The seeds of the runs: one, or several as `1,2,3`."""
    from dpw import InputError

    if seeds is None:
        return [seed or 0]
    if seed is not None:
        raise InputError(f"--seed {seed} has no effect beside --seeds {seeds}: give one of the two")
    try:
        found = [int(part) for part in seeds.split(",")]
    except ValueError as error:
        raise InputError(f"--seeds {seeds!r} is no list of whole numbers such as 1,2,3") from error
    if len(set(found)) != len(found):
        raise InputError(f"--seeds {seeds} names a seed twice: give each once")
    return found


def _default_model(benchmark: str) -> str:
    """The CLIP of a benchmark that brings one."""
    from dpw import InputError
    from dpw.runs.config import default_model

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


def run_in_terminal(config: "RunConfig", folder: Path, checkpoint_seconds: float = 30.0) -> dict[str, Any]:
    """One run, or what is left of it, with a progress bar."""
    from dpw.runs.run import start_run

    return _with_terminal(folder, checkpoint_seconds, lambda options: start_run(config, folder, options))


def _with_terminal(folder: Path, checkpoint_seconds: float, work: Any) -> dict[str, Any]:
    """Carry a run out with a progress bar; a stop is answered with the way to go on."""
    import gc

    from dpw import Interrupted
    from dpw.cli.terminal import TerminalCallback, exit_code, stopping
    from dpw.runs.config import RunOptions

    gc.freeze()  # what was imported stays: Accelerate collects garbage after every task, half a second each
    callback = TerminalCallback()
    with stopping() as request:
        options = RunOptions(checkpoint_seconds, callback, request, callback.on_message)
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
    """The table of what was found."""
    if as_json:
        say(json.dumps(results if len(results) > 1 else results[0], indent=2))
        return
    from dpw.runs.gathering import MAIN_METRICS

    first = results[0]
    say(f"{first['benchmark']}, {first['setting']}, protocol {first['protocol']}, {first['model']}")
    say(f"{'method':<18}{'seed':>5}" + "".join(f"{name:>12}" for name in MAIN_METRICS) + f"{'learned':>12}")
    for result in results:
        values = "".join(f"{_percent(result['metrics'][name]):>12}" for name in MAIN_METRICS)
        say(f"{result['method']:<18}{result['seed']:>5}{values}{result['parameters']:>12,}")
    for result in results:
        say(f"{result['method']}: {result['folder']}/results.json")


def _percent(value: float | None) -> str:
    """One decimal, or a dash."""
    return "-" if value is None else f"{value:.1f}"


def methods(as_json: Json = False) -> None:
    """List the methods with their presets."""
    from dpw.methods.catalog import catalog

    found: list[dict[str, Any]] = [
        {"name": name, "summary": entry.summary, "status": entry.status, "presets": entry.presets}
        for name, entry in sorted(catalog().items())
    ]
    if as_json:
        say(json.dumps(found, indent=2))
        return
    for entry in found:
        say(f"{entry['name']:<14}{entry['summary']}")
        if presets := _preset_names(entry["presets"]):
            say(f"{'':<14}presets: {', '.join(presets)}")
        if "reconstruction" in entry["status"]:
            say(f"{'':<14}{entry['status']}")


def _preset_names(presets: Sequence[str]) -> list[str]:
    """The presets besides the default one; families such as `ablation/...` only by their size."""
    single = [preset for preset in presets if "/" not in preset and preset != "default"]
    families = [preset.split("/")[0] for preset in presets if "/" in preset]
    return single + [f"{name}/... ({families.count(name)}, see --json)" for name in dict.fromkeys(families)]
