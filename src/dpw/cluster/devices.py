"""Several devices in one training: Ray Train starts a process for each, Accelerate splits every batch."""

import os
import secrets
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from dpw.cluster.jobs import PULSE, Asked
from dpw.engine.callbacks import never
from dpw.errors import DpwError, InputError, Interrupted
from dpw.runs.config import RunConfig, RunOptions
from dpw.runs.run import start_run
from dpw.storage.run_folder import RunFolder

MARK = "dpw-says: "
ATTEMPTS = 4  # times that a training is begun or gone on with when its processes die


def run_on_devices(
    ray: Any,
    config: RunConfig,
    folder: Path,
    processes: int,
    threads: int = 1,
    checkpoint_seconds: float = 30.0,
    should_stop: Callable[[], bool] = never,
) -> dict[str, Any]:
    """One run by several processes of a cluster, as `accelerate launch` does it on one machine.

    Each batch is split over the processes, so results are those of one process up to the order of sums.

    Raises:
        InputError: the run cannot be done, or the cluster has too few devices.
        Interrupted: `should_stop` said so; the same call goes on.
    """
    from ray.train import RunConfig as TrainConfig
    from ray.train import ScalingConfig
    from ray.train.torch import TorchTrainer

    there = ray.cluster_resources()
    gpus = bool(there.get("GPU"))
    have = int(there["GPU"] if gpus else there.get("CPU", 0) // threads)
    if have < processes:
        raise InputError(
            f"--processes {processes}: the cluster has room for {have}; use fewer, or add machines"
        )
    stop = _scratch(folder) / f"stop-{secrets.token_hex(4)}"
    values = {
        "config": config.model_dump(mode="json"),
        "folder": str(folder.absolute()),
        "threads": threads,
        "directory": str(Path.cwd()),
        "command": list(sys.argv),
        "checkpoint_seconds": checkpoint_seconds,
        "stop": str(stop),
    }
    each = {"CPU": threads, **({"GPU": 1} if gpus else {})}
    trainer = TorchTrainer(
        _one_process,
        train_loop_config=values,
        scaling_config=ScalingConfig(num_workers=processes, use_gpu=gpus, resources_per_worker=each),
        run_config=TrainConfig(
            name="ray-train",
            storage_path=str(_scratch(folder)),
        ),
    )
    try:
        _watched(trainer, stop, should_stop)
    finally:
        stop.unlink(missing_ok=True)
    if should_stop() and not RunFolder(folder).finished:
        raise Interrupted("stopped before the end of a training")
    return RunFolder(folder).checked_results()


def _watched(trainer: Any, stop: Path, should_stop: Callable[[], bool]) -> None:
    """Let a trainer do its work in a thread, and hand a request to stop on to its processes.

    In the main thread Ray would answer Ctrl-C itself, by ending its processes in the middle of a step.
    """
    ended: list[BaseException] = []

    def work() -> None:
        """Fit, and keep what went wrong for the caller."""
        try:
            _fit(trainer)
        except BaseException as error:  # raised again below
            ended.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(PULSE)
        if should_stop():
            with suppress(OSError):  # Ray makes the folder; until then there is nobody to stop
                stop.touch()
    if ended:
        raise ended[0]


def _fit(trainer: Any) -> None:
    """Let a trainer do its work, again from the last checkpoint when processes died; mistakes are final.

    Ray's own retries would repeat a mistake of the user's, such as a bad image, just as often.
    """
    for left in reversed(range(ATTEMPTS)):
        try:
            trainer.fit()
            return
        except Exception as error:  # Ray has several kinds, which all carry the worker's own error as text
            sentence = _sentence(error)
            if sentence is None and left:
                continue
            lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
            raise InputError(
                sentence
                or f"the processes of a training ended {ATTEMPTS} times ({lines[-1].strip():.300}): look at "
                "the logs of Ray, then give the same command again"
            ) from error


def _scratch(folder: Path) -> Path:
    """Where Ray Train keeps what it writes itself: beside the run, never in it."""
    return folder.absolute().parent / ".ray-train"


def _one_process(values: dict[str, Any]) -> None:
    """What each of the processes does; Ray has told it its rank and where the others are."""
    import torch

    os.chdir(values["directory"])
    sys.argv = list(values["command"])
    torch.set_num_threads(values["threads"])
    options = RunOptions(values["checkpoint_seconds"], should_stop=Asked(Path(values["stop"])), patience=60.0)
    try:
        start_run(RunConfig(**values["config"]), Path(values["folder"]), options)
    except Interrupted:
        return
    except DpwError as error:
        raise RuntimeError(f"{MARK}{error}") from error


def _sentence(error: BaseException) -> str | None:
    """The sentence for the user that one of the processes ended with, or None."""
    lines = [line for line in str(error).splitlines() if MARK in line]
    return lines[-1].partition(MARK)[2] if lines else None
