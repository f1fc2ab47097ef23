"""`dpw sweep`: search settings on validation images, by many workers."""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpw.cli.cluster import Display, duration, ray_speaks_apart
from dpw.cli.learn import Json
from dpw.cli.output import say, say_error, say_lines, say_text

if TYPE_CHECKING:
    from dpw.cluster.sweep import SweepSpec


def sweep(
    spec: Annotated[Path, typer.Argument(help="A YAML file: benchmark, methods, settings and more.")],
    output: Annotated[Path | None, typer.Option(help="Folder of the sweep; sweeps/NAME by default.")] = None,
    cluster: Annotated[str, typer.Option(help="local, local:N, auto, or an address.")] = "local",
    threads: Annotated[int, typer.Option(min=1, help="Threads of every worker; they decide digits.")] = 1,
    plan: Annotated[bool, typer.Option("--plan", help="Only say which points, and what they cost.")] = False,
    as_json: Json = False,
) -> None:
    """Search settings by a grid or at random; chooses on validation images and looks at no test image."""
    from dpw.cluster.sweep import cost, read_spec

    wanted = read_spec(spec)
    if plan:
        _show_plan(cost(wanted), wanted, as_json)
        return
    _carry_out(wanted, output or Path("sweeps") / spec.stem, cluster, threads, as_json)


def _carry_out(wanted: "SweepSpec", folder: Path, cluster: str, threads: int, as_json: bool) -> None:
    """Run what is missing, then write the table and the picture."""
    from dpw import Interrupted
    from dpw.cluster.connection import connected
    from dpw.cluster.sweep import points_of, run_sweep, write_table
    from dpw.report.sweep import draw_scores

    count = len(points_of(wanted))
    say(f"{count} points, judged on validation images; no test image is looked at", err=True)
    with ray_speaks_apart(), connected(cluster) as ray:
        try:
            with Display() as display:
                rows = run_sweep(ray, wanted, folder, threads, display.show)
        except Interrupted as stopped:
            say_error(f"{stopped}; the same command goes on")
            raise typer.Exit(130) from stopped
    written = [str(write_table(rows, folder)), str(draw_scores(rows, folder / "sweep.png"))]
    if as_json:
        say_text(json.dumps({"points": rows, "files": written}, indent=2))
        return
    say_lines(_lines(rows))
    say(f"best on validation images: {_command(rows[0], wanted)}")
    say(f"written to {' and '.join(written)}")


def _lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The table, the best point first."""
    from dpw.report.comparison import aligned

    lines = [["point", "method", "preset", "seed", "shots", "settings", "tasks", "validation"]]
    for row in rows:
        chosen = ", ".join(
            f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
            for name, value in row["settings"].items()
        )
        score = row["error"] or ("-" if row["score"] is None else f"{row['score']:.2f}")
        cells = [row["point"], row["method"], row["preset"], row["seed"], row["shots"] or "all"]
        lines.append([*map(str, cells), chosen or "-", str(row["tasks"]), score])
    return list(aligned(lines))


def _command(row: Mapping[str, Any], wanted: "SweepSpec") -> str:
    """The run that measures a point on the test images."""
    parts = ["dpw", "run", wanted.benchmark, "--method", row["method"], "--seed", str(row["seed"])]
    parts += ["--preset", row["preset"]] if row["preset"] != "default" else []
    parts += ["--model", wanted.model] if wanted.model else []
    parts += ["--data-root", wanted.data_root] if wanted.data_root else []
    parts += ["--protocol", wanted.protocol] if wanted.protocol else []
    parts += ["--order", ",".join(wanted.order)] if wanted.order else []
    parts += ["--shots", str(row["shots"])] if row["shots"] else []
    for name, value in row["settings"].items():
        parts += ["--set", f"{name}={json.dumps(value)}"]
    return shlex.join(parts)


def _show_plan(costs: Sequence[Mapping[str, Any]], wanted: "SweepSpec", as_json: bool) -> None:
    """What the sweep will cost."""
    total = sum(one["seconds"] for one in costs)
    if as_json:
        say_text(json.dumps({"points": list(costs), "seconds": total}, indent=2))
        return
    for one in costs:
        named = f"point {one['point']:>3}  {one['method']:<14}{one['preset']:<12}"
        say(f"{named} about {duration(one['seconds'])}")
    most = " at most, since halving ends points early" if wanted.halving is not None else ""
    say(f"{len(costs)} points: about {duration(total)} of one worker such as this machine{most}")
