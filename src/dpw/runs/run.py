"""A benchmark run: a folder that can be stopped at any moment and goes on to the same bytes."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from dpw.engine.devices import is_main_process, with_threads
from dpw.errors import InputError, a_path, refuse_no_settings, wrong
from dpw.methods import METHODS
from dpw.methods.config import build, stored
from dpw.runs.benchmark_run import BenchmarkRun
from dpw.runs.checks import conditions, digests, refuse_changed_data
from dpw.runs.config import UNNAMED, RunConfig, RunOptions, default_model
from dpw.runs.opening import method_config
from dpw.runs.provenance import environment, versions
from dpw.storage.lock import waiting_to_write
from dpw.storage.model_json import tidy
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
    folder = a_path(output, "output")
    _refuse_wrong_types(benchmark, settings, options)
    clip = default_model(str(benchmark)) if model is None else str(model)
    if clip is None:
        raise InputError("say which CLIP to use: model='openai/clip-vit-base-patch16', a folder, or 'mini'")
    learned = {"model": clip, "method": method, "preset": preset, "settings": dict(settings or {})}
    root, lists = (None if path is None else str(path) for path in (data_root, shot_lists))
    draws = {"shots": shots, "shot_lists": lists, "rebuild_splits": rebuild_splits}
    data = {"data_root": root, "protocol": protocol, "order": order, **draws}
    config = build(RunConfig, {"benchmark": str(benchmark), "seed": seed, **learned, **data})
    return start_run(config, folder, options)


def _refuse_wrong_types(
    benchmark: str | Path, settings: Mapping[str, Any] | None, options: RunOptions | None
) -> None:
    """Say in a sentence what of a run's arguments is no name, path, mapping or `RunOptions`."""
    a_path(benchmark, "benchmark")
    refuse_no_settings(settings)
    if not isinstance(options, RunOptions | None):
        raise wrong("options", options, "RunOptions")


def start_run(config: RunConfig, folder: Path, options: RunOptions | None = None) -> dict[str, Any]:
    """Begin a run in a new folder, or go on with the same run in an old one; gives the results."""
    with run_opened(config, folder, options) as run:
        return RunFolder(folder).checked_results() if run is None else run.go()


def resume_run(folder: Path, options: RunOptions | None = None) -> dict[str, Any]:
    """Go on with a run from where it stands; a finished run only gives its results.

    A run that shares learned tasks goes on with those, as long as their folder is there.
    """
    files, chosen = RunFolder(folder), options or RunOptions()
    kept = files.read_run().get("reuse")  # a folder that is no run is refused before anything is made in it
    if chosen.reuse is None and kept is not None and Path(kept).is_dir():
        chosen = replace(chosen, reuse=Path(kept))
    with _only_writer(folder, chosen):
        run = _resumed(files, chosen)
        if run is None:
            return files.checked_results()
        with with_threads(run.threads):
            return run.go()


@contextmanager
def run_opened(
    config: RunConfig, folder: Path, options: RunOptions | None = None
) -> Iterator[BenchmarkRun | None]:
    """A run begun in a new folder or found in an old one, ready to go; None if it is finished.

    While it is open nobody else can write into its folder, and the number of threads is the run's own.
    """
    files, chosen = RunFolder(folder), options or RunOptions()
    if not files.started:
        files.refuse_unless_empty()
    with _only_writer(folder, chosen):
        if files.started and not _may_begin_anew(files, config):
            files.refuse_other(config.model_dump(mode="json"), UNNAMED)
            run = _resumed(files, replace(chosen, allow_download=True))
        else:
            if not files.started:
                files.refuse_unless_empty()
            run = _begun(files, config, chosen)
        with with_threads(None if run is None else run.threads):
            yield run


def _may_begin_anew(files: RunFolder, config: RunConfig) -> bool:
    """Whether a corrected command may take over the folder of a run that has not learned anything yet."""
    return files.untouched and files.read_run()["settings"] != config.model_dump(mode="json")


def _begun(files: RunFolder, config: RunConfig, options: RunOptions) -> BenchmarkRun:
    """A new run, checked and written down; the lock of its folder is held."""
    method = method_config(config)
    run = BenchmarkRun(files, config, method, options)
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
                **({} if options.reuse is None else {"reuse": str(options.reuse.absolute())}),
            }
        )
    return run


def _resumed(files: RunFolder, options: RunOptions) -> BenchmarkRun | None:
    """A run whose lock is held, as it stands; None if it is finished."""
    files.refuse_incomplete()
    if is_main_process():
        for part in (files.model, files.checkpoint):
            tidy(part)
    content = files.read_run()
    _stored_config(files, content)  # a method that is unknown here is refused even in a finished run
    if files.finished:
        return None
    run = stored_run(files, options)
    refuse_changed_data(files.path, content, run.benchmark)
    if files.untouched:
        run.check()
    return run


def stored_run(files: RunFolder, options: RunOptions | None = None) -> BenchmarkRun:
    """The run that was begun in a folder, as it was described there; nobody's lock is asked for."""
    content = files.read_run()
    config = _stored_config(files, content)
    method = stored(METHODS[config.method].config_class, content["method_config"])
    chosen, directory = options or RunOptions(), content.get("directory")
    return BenchmarkRun(files, config, method, chosen, directory, content.get("threads"))


def _stored_config(files: RunFolder, content: Mapping[str, Any]) -> RunConfig:
    """What a run was asked to do, if this version has its method."""
    config = build(RunConfig, content["settings"])
    if config.method not in METHODS:
        raise InputError(f"{files.path} is a run of method {config.method!r}, which this dpw does not have")
    return config


def _only_writer(folder: Path, options: RunOptions) -> AbstractContextManager[Any]:
    """The lock of a run's folder; of several processes that share a run, the main one holds it."""
    return waiting_to_write(folder, options.patience) if is_main_process() else nullcontext()
