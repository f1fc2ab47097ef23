"""Several devices in one training: Ray Train starts a process for each, Accelerate splits every batch."""

import os
import sys
from pathlib import Path
from typing import Any

from dpw.errors import DpwError, InputError
from dpw.runs.config import RunConfig, RunOptions
from dpw.runs.run import start_run
from dpw.storage.run_folder import RunFolder


def run_on_devices(
    ray: Any, config: RunConfig, folder: Path, processes: int, threads: int = 1
) -> dict[str, Any]:
    """One run by several processes of a cluster, as `accelerate launch` does it on one machine.

    Each batch is split over the processes, so results are those of one process up to the order of sums.

    Raises:
        InputError: the run cannot be done, or the cluster has too few devices.
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
    values = {
        "config": config.model_dump(mode="json"),
        "folder": str(folder.absolute()),
        "threads": threads,
        "directory": str(Path.cwd()),
        "command": list(sys.argv),
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
    _fit(trainer)
    return RunFolder(folder).checked_results()


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
    try:
        start_run(RunConfig(**values["config"]), Path(values["folder"]), RunOptions(patience=60.0))
    except DpwError as error:
        raise RuntimeError(f"{MARK}{error}") from error


MARK = "dpw-says: "
ATTEMPTS = 4  # times that a training is begun or gone on with when its processes die


def _sentence(error: BaseException) -> str | None:
    """The sentence for the user that one of the processes ended with, or None."""
    lines = [line for line in str(error).splitlines() if MARK in line]
    return lines[-1].partition(MARK)[2] if lines else None
