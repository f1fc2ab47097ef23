"""`dpw benchmarks`: the embedded benchmarks, or the tasks of one."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from dpw.cli.output import say_text, wrapped
from dpw.cli.public_data import data_root_for, refuse_given


def benchmarks(
    name: Annotated[str | None, typer.Argument(help="A benchmark or YAML file to show the tasks of.")] = None,
    data_root: Annotated[
        Path | None, typer.Option("--data-root", envvar="DPW_DATA", help="Folder of the public datasets.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of splits and draws.")] = 0,
    shots: Annotated[int | None, typer.Option(help="Training images of each class.")] = None,
    protocol: Annotated[str | None, typer.Option(help="Protocol: coop or zscl.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON instead of text.")] = False,
) -> None:
    """List the benchmarks with their sizes, or load one and show its tasks."""
    from dpw.benchmarks import list_benchmarks, load_benchmark

    if name is None:
        refuse_given({"--seed": seed or None, "--shots": shots, "--protocol": protocol}, "the list")
        described = [benchmark.describe() for benchmark in list_benchmarks()]
        say_text(json.dumps(described, indent=2) if as_json else _list(described))
        return
    root = data_root_for(name, data_root)
    loaded = load_benchmark(name, data_root=root, seed=seed, shots=shots, protocol=protocol).describe()
    say_text(json.dumps(loaded, indent=2) if as_json else _tasks(loaded))


def _list(described: list[dict[str, Any]]) -> str:
    """Two lines for each benchmark, its numbers and what it is, which fit on a terminal of 80 columns."""
    lines = [
        f"{'benchmark':<18}{'tasks':>6}{'classes':>9}{'train':>9}{'test':>9}  setting            protocol"
    ]
    for benchmark in described:
        numbers = f"{len(benchmark['tasks']) or '-':>6}" + "".join(
            f"{_shown(benchmark[what]):>9}" for what in ("classes", "train", "test")
        )
        lines.append(f"{benchmark['name']:<18}{numbers}  {benchmark['setting']:<18} {benchmark['protocol']}")
        lines += wrapped(benchmark["description"], indent=4)
    lines += ["", "'dpw benchmarks NAME' loads one and shows its tasks; '-' is known only then."]
    return "\n".join(lines)


def _tasks(loaded: dict[str, Any]) -> str:
    """One line for each task of a loaded benchmark."""
    shots = "" if loaded["shots"] is None else f", {loaded['shots']}-shot"
    lines = [
        f"{loaded['name']}: {loaded['setting']}, protocol {loaded['protocol']}, seed {loaded['seed']}{shots}"
    ]
    lines.append(f"{'task':<18}{'classes':>9}{'train':>9}{'val':>9}{'test':>9}  first template")
    for task in loaded["tasks"]:
        numbers = "".join(f"{_shown(task.get(what)):>9}" for what in ("classes", "train", "val", "test"))
        lines.append(f"{task['name']:<18}{numbers}  {task['templates'][0]}")
    return "\n".join(lines)


def _shown(number: int | None) -> str:
    """A number, or a dash where there is none."""
    return "-" if number is None else str(number)
