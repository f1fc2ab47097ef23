"""`dpw data`: look at and fetch the public datasets."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpw import InputError
from dpw.cli.output import say, say_text

if TYPE_CHECKING:
    from dpw.data.inspection import DatasetReport

app = typer.Typer(help="Check and fetch the public datasets.", no_args_is_help=True)

RootArgument = Annotated[
    Path,
    typer.Argument(
        envvar="DPW_DATA",
        help="Folder that holds the datasets' folders (here by default), or a benchmark's YAML.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON instead of text.")]


@app.command()
def check(
    root: RootArgument = Path(),
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Check this dataset only; may be repeated.")
    ] = None,
    protocol: Annotated[str, typer.Option(help="Protocol to read with: coop or zscl.")] = "coop",
    images: Annotated[bool, typer.Option("--images", help="Also decode every image.")] = False,
    subset: Annotated[
        bool, typer.Option("--subset", help="Accept other numbers than the official ones.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Say which of the eleven datasets are usable; exit code 0 only when all that were asked for are."""
    if root.suffix in (".yaml", ".yml"):
        if subset:
            raise InputError("--subset has no effect on a benchmark's YAML: leave it out")
        reports = _check_written(root, only, protocol, images)
    else:
        reports = _check_public(root, only, protocol, images, subset)
    if as_json:
        say_text(
            json.dumps({"protocol": protocol, "datasets": [report.as_json() for report in reports]}, indent=2)
        )
    else:
        say_text(_table(reports))
    raise typer.Exit(0 if all(report.usable for report in reports) else 1)


def _check_public(
    root: Path, only: list[str] | None, protocol: str, images: bool, subset: bool
) -> "list[DatasetReport]":
    """Check the eleven datasets, or some of them."""
    from dpw.data.inspection import check_dataset
    from dpw.data.protocol import get_protocol
    from dpw.data.public import DATASETS, get_dataset

    get_protocol(protocol)
    if not root.is_dir():
        raise InputError(f"there is no folder {root}: give the folder that holds the datasets' folders")
    names = [get_dataset(name).name for name in only] if only else list(DATASETS)
    return [check_dataset(name, root, protocol=protocol, decode=images, subset=subset) for name in names]


def _check_written(path: Path, only: list[str] | None, protocol: str, images: bool) -> "list[DatasetReport]":
    """Check the tasks of a benchmark that a user wrote, or some of them."""
    from dpw.benchmarks import load_benchmark
    from dpw.data.inspection import check_task

    tasks = load_benchmark(path, protocol=protocol, order=only).tasks
    return [
        check_task(name, lambda index=index: tasks[index], decode=images)  # type: ignore[misc]
        for index, name in enumerate(tasks.names)
    ]


def _table(reports: "list[DatasetReport]") -> str:
    """One line for each dataset, and below it the first thing that is wrong."""
    columns = ("classes", "train", "val", "test")
    lines = [f"{'dataset':<14}{'state':<9}" + "".join(f"{column:>18}" for column in columns)]
    for report in reports:
        state = "usable" if report.usable else "wrong" if report.found else "missing"
        cells = "".join(f"{_cell(report.counts[column], report.expected[column]):>18}" for column in columns)
        lines.append(f"{report.name:<14}{state:<9}{cells}")
        if report.problems:
            more = f" (and {len(report.problems) - 1} more; see --json)" if len(report.problems) > 1 else ""
            lines.append(f"  {report.problems[0]}{more}")
    return "\n".join(lines)


def _cell(count: int | None, expected: int | None) -> str:
    """A number, and the expected one where it differs."""
    shown = "-" if count is None else str(count)
    return shown if count == expected else f"{shown} of {'-' if expected is None else expected}"


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="Name of the dataset, such as mnist.")],
    root: Annotated[Path, typer.Option("--root", envvar="DPW_DATA", help="Folder to put it in.")],
    as_json: JsonOption = False,
) -> None:
    """Download one public dataset into the layout; run it again to go on after an interruption."""
    from dpw.cli.terminal import Fetching
    from dpw.data.download import get_public
    from dpw.data.public import get_dataset

    dataset = get_dataset(name)
    with Fetching() as progress:
        added = get_public(dataset, root, progress)
    folder = root / dataset.folder
    if as_json:
        say_text(json.dumps({"name": dataset.name, "folder": str(folder), "added": added}))
    else:
        say(f"{dataset.title} is in {folder}" + (f"; added {', '.join(added)}" if added else ""))
