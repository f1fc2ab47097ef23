"""The options of `dpw run`."""

from pathlib import Path
from typing import Annotated

import typer

from dpw.cli.learn import rarely

Benchmark = Annotated[str, typer.Argument(help="A benchmark by name (see 'dpw benchmarks') or a YAML file.")]
MethodNames = Annotated[str | None, typer.Option(help="One or more methods, separated by commas.")]
ClipName = Annotated[str | None, typer.Option(help="CLIP: mini, a folder, or a hub name.")]
Output = Annotated[Path | None, typer.Option(help="Folder of the run; runs/... by default.")]
Seed = Annotated[int | None, typer.Option(help="Seed of splits, draws and training (0).")]
Seeds = Annotated[str | None, typer.Option(help="Several seeds, as 1,2,3.")]
Presets = Annotated[str, typer.Option(help="Preset, or several separated by commas.")]
SetOptions = Annotated[list[str] | None, typer.Option("--set", help="A setting, as key=value.")]
DataRoot = Annotated[
    Path | None, typer.Option("--data-root", envvar="DPW_DATA", help="Folder of the public datasets.")
]
Protocol = Annotated[str | None, rarely(help="Protocol: coop or zscl.")]
Shots = Annotated[str | None, rarely(help="Training images of each class; several draw a curve, as 1,2,4,8.")]
Order = Annotated[str | None, rarely(help="Task names, separated by commas.")]
ShotLists = Annotated[Path | None, rarely(help="Folder of published few-shot lists, used where it has one.")]
RebuildSplits = Annotated[
    bool, rarely("--rebuild-splits", help="Make missing split files anew; not the published ones.")
]
MixedPrecision = Annotated[str, rarely(help="no, fp16 or bf16.")]
GradientAccumulation = Annotated[int, rarely(help="Batches gathered for one step.")]
Workers = Annotated[int, rarely(help="Processes that read images.")]
Track = Annotated[list[str] | None, rarely(help="tensorboard, wandb or trackio.")]
Jobs = Annotated[
    int | None,
    typer.Option(min=1, max=256, help="Processes for runs and independent tasks; on mini one a core."),
]
