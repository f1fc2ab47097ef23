"""What a run is asked to do: everything that decides its numbers, and how it is carried out."""

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from dpw.benchmarks import LoadedBenchmark, load_benchmark
from dpw.clip.pretrained import find_clip
from dpw.engine.callbacks import TrainingCallback, never
from dpw.errors import InputError, a_number
from dpw.methods.catalog import refuse_unknown
from dpw.methods.config import Settings

MINI = "mini"  # the embedded benchmark, and the embedded CLIP that goes with it
EMBEDDED = (MINI, "mini-order2", "mini-cil", "mini-x-tail")  # its forms


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
    shot_lists: str | None = None
    rebuild_splits: bool = False
    evaluation_batch: int = Field(256, ge=1)
    mixed_precision: Literal["no", "fp16", "bf16"] = "no"
    gradient_accumulation: int = Field(1, ge=1)
    workers: int = Field(0, ge=0, le=256)
    trackers: tuple[Literal["tensorboard", "wandb", "trackio"], ...] = ()


# Settings that runs of earlier versions do not name, with what they meant.
UNNAMED: dict[str, Any] = {"shot_lists": None, "rebuild_splits": False}


def ignore_message(message: str) -> None:
    """Hear what a run says and do nothing."""


@dataclass
class RunOptions:
    """How a run is watched and kept, which changes no number."""

    checkpoint_seconds: float = 30.0
    callback: TrainingCallback = field(default_factory=TrainingCallback)
    should_stop: Callable[[], bool] = never
    on_message: Callable[[str], None] = ignore_message  # what happens now
    on_notice: Callable[[str], None] = ignore_message  # what somebody should know before a run begins
    allow_download: bool = False  # whether a run that is resumed may fetch the CLIP it names
    reuse: Path | None = None  # a folder of learned tasks that runs in any order share
    patience: float = 0.0  # seconds to wait for another process that writes into the run's folder

    def __post_init__(self) -> None:
        """Refuse a time that is none."""
        a_number(self.checkpoint_seconds, "checkpoint_seconds", 0)


def default_model(benchmark: str) -> str | None:
    """The embedded CLIP for the embedded benchmark; any other must be named, since it may be fetched."""
    return MINI if benchmark in EMBEDDED else None


def check_trackers(names: Sequence[str]) -> None:
    """Refuse a tracker that is not installed; Accelerate would leave it out in silence."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise InputError(f"tracker {name!r} is not installed: pip install 'dpw[{name}]'")


def where_written(path: str, directory: str | None) -> str:
    """A path as it was meant: from the folder in which the command was given, if it is still there."""
    if directory is not None and not Path(path).is_absolute() and (Path(directory) / path).exists():
        return str(Path(directory) / path)
    return path


def load_run_benchmark(config: RunConfig, directory: str | None = None) -> LoadedBenchmark:
    """The benchmark of a run with the run's own choices; `directory` is where its paths were written."""
    root, lists = config.data_root, config.shot_lists
    return load_benchmark(
        where_written(config.benchmark, directory),
        data_root=None if root is None else where_written(root, directory),
        seed=config.seed,
        shots=config.shots,
        protocol=config.protocol,
        order=config.order,
        shot_lists=None if lists is None else where_written(lists, directory),
        rebuild_splits=config.rebuild_splits,
    )


def refuse_early(config: RunConfig) -> None:
    """Refuse what does not exist before torch is there: benchmark, method, preset, setting, CLIP, tracker."""
    check_trackers(config.trackers)
    refuse_unknown(config.method, config.preset, config.settings)
    find_clip(config.model)
    load_run_benchmark(config)
