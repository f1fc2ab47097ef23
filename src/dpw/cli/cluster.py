"""`--cluster` of `dpw run`, and `dpw status`: many processes and machines, and how far they are."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpw.cli.learn import Json
from dpw.cli.output import plain, say, say_error, say_lines, say_sentence, say_text

if TYPE_CHECKING:
    from dpw.runs.config import RunConfig

HEADS = 10  # times that a head may be lost before somebody should look at it


def clustered(**options: Any) -> Any:
    """An option about many machines: `--help` shows it in a panel of its own."""
    return typer.Option(rich_help_panel="Many machines", **options)


Cluster = Annotated[
    str | None,
    clustered(help="Spread the work by Ray: local, local:N, auto, or the address of a cluster."),
]
Reuse = Annotated[
    Path | None,
    clustered(help="Folder of learned tasks: train once, any order; with --cluster learned-tasks/."),
]
Threads = Annotated[
    int | None, clustered(min=1, help="With --cluster: threads of every worker (1); they decide digits.")
]
Processes = Annotated[
    int | None, clustered(min=2, help="With --cluster: processes that share every training, one a device.")
]


@dataclass(frozen=True)
class ClusterPlace:
    """Where and how runs are spread: the cluster, the folder of the runs, and what workers share."""

    cluster: str
    base: Path
    reuse: Path | None
    threads: int | None
    processes: int | None
    checkpoint_seconds: float

    @property
    def store(self) -> Path:
        """The learned tasks, by default beside the output folder, so that other benchmarks find them."""
        return self.reuse or self.base.parent / "learned-tasks"


def refuse_mixed(
    cluster: str | None,
    threads: int | None,
    processes: int | None,
    jobs: int | None,
    track: Sequence[str] | None,
) -> None:
    """Refuse options that would have no effect with a cluster, or without one."""
    from dpw import InputError

    for name, value in (("--threads", threads), ("--processes", processes)):
        if value is not None and cluster is None:
            raise InputError(
                f"{name} {value} has no effect without --cluster: use OMP_NUM_THREADS or accelerate launch"
            )
    if jobs is not None and cluster is not None:
        raise InputError(
            f"--jobs {jobs} has no effect with --cluster: say how many workers, as in --cluster local:{jobs}"
        )
    if track and cluster is not None and processes is None:
        raise InputError(
            f"--track {track[0]} has no effect with --cluster, whose workers learn the parts of a run apart: "
            "leave it out, and watch by 'dpw status'"
        )


def run_on_cluster(runs: Sequence[tuple["RunConfig", Path]], place: ClusterPlace) -> list[dict[str, Any]]:
    """Carry runs out on a cluster with one display for all of them."""
    from dpw import Interrupted
    from dpw.cli.terminal import exit_code, stopping

    with ray_speaks_apart(), stopping() as request:
        try:
            found = _while_heads_come_back(runs, place, request)
        except Interrupted as stopped:
            say_error(f"{stopped}; the same command goes on")
            raise typer.Exit(exit_code(request)) from stopped
    return [{**one, "folder": str(folder)} for one, (_, folder) in zip(found, runs, strict=True)]


def _while_heads_come_back(runs: Sequence[Any], place: ClusterPlace, request: Any) -> list[dict[str, Any]]:
    """Carry the runs out, and again what is left of them when the head of the cluster was started anew."""
    from dpw.cluster.connection import LOCAL, HeadLostError, connected, wait_for_devices, wait_for_head

    lost: HeadLostError | None = None
    for _ in range(HEADS):
        if lost is not None and place.cluster.partition(":")[0] != LOCAL:
            say_error(f"the head at {lost.address} does not answer any more; waiting until it does again")
            wait_for_head(lost, request)
        try:
            with connected(place.cluster) as ray:
                if lost is not None:
                    wait_for_devices(ray, lost, request)
                return _carried_out(ray, runs, place, request)
        except HeadLostError as error:
            lost = error
    assert lost is not None, "otherwise the runs are done"
    raise lost


def _carried_out(ray: Any, runs: Sequence[Any], place: ClusterPlace, request: Any) -> list[dict[str, Any]]:
    """By parts over all workers, or every run by several processes at once."""
    from dpw.cluster.devices import run_on_devices
    from dpw.cluster.grid import GridOptions, PlannedRun, run_grid
    from dpw.cluster.workers import RayWorkers
    from dpw.storage.run_folder import CLUSTER_FILE

    threads = place.threads or 1
    if place.processes is not None:
        how = (place.processes, threads, place.checkpoint_seconds, request)
        return [run_on_devices(ray, config, folder, *how) for config, folder in runs]
    status = place.base / CLUSTER_FILE
    with Display() as display:
        options = GridOptions(
            place.store, status, threads, place.checkpoint_seconds, request, display.show, say_error
        )
        grid = [PlannedRun(config, folder) for config, folder in runs]
        return run_grid(grid, RayWorkers(ray, threads), options)


@contextmanager
def ray_speaks_apart() -> Iterator[None]:
    """Let what Ray says about workers that died go to standard error, so that answers stay readable."""
    with redirect_stdout(sys.stderr):
        yield


class Display:
    """One table for a whole grid on a terminal; silent elsewhere."""

    def __init__(self) -> None:
        """Prepare the table."""
        from rich.live import Live

        from dpw.cli.terminal import console

        self.live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None

    def __enter__(self) -> "Display":
        """Show it."""
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take it away again."""
        if self.live is not None:
            self.live.stop()

    def show(self, snapshot: Mapping[str, Any]) -> None:
        """Draw how far everything is."""
        if self.live is not None:
            from rich.text import Text

            self.live.update(Text("\n".join(cluster_lines(snapshot))), refresh=True)


def cluster_lines(snapshot: Mapping[str, Any]) -> list[str]:
    """A line for the whole, for every run and for every job, as plain text."""
    runs, jobs = snapshot["runs"], snapshot["jobs"]
    ended = sum(run["stage"] in ("finished", "failed", "stopped") for run in runs)
    left = snapshot.get("left")
    rest = "" if left is None else f", about {duration(left)} left"
    lines = [f"{ended} of {len(runs)} runs ended, {snapshot.get('slots', 0)} workers{rest}"]
    for run in runs:
        counts = ", ".join(f"{stage} {done}/{count}" for stage, (done, count) in run["parts"].items())
        why = f": {run['why']}" if run.get("why") else ""
        lines.append(plain(f"  {Path(run['folder']).name:<28} {run['stage']:<10} {counts}{why}"))
    for job in jobs:
        if not job.get("node"):
            continue
        step = f" step {job.get('step', 0)}/{job['steps']}" if job.get("steps") else ""
        what = f"{job['kind']} {job.get('part', '')} of {job.get('run', '')}"
        lines.append(plain(f"    {job['node']} ({job.get('pid', '?')}): {what}{step}"))
    return lines


def duration(seconds: float) -> str:
    """A duration in the unit that suits it."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def status(
    folder: Annotated[Path, typer.Argument(help="The folder of a run, or a folder of runs.")],
    as_json: Json = False,
) -> None:
    """Say how far runs are, from any terminal: what is learned and measured, who works on what, time left."""
    from dpw.runs.status import cluster_status, statuses

    found, cluster = statuses(folder), cluster_status(folder)
    if as_json:
        say_text(json.dumps({"runs": [one.as_json() for one in found], "cluster": cluster}, indent=2))
        return
    if cluster is not None:
        if cluster["silent"] is not None:
            say(f"the cluster has been silent for {duration(cluster['silent'])}; the same command goes on")
        say_lines(cluster_lines(cluster))
    for one in found:
        if one.problem is not None:
            say(f"{one.folder}: {one.problem}")
            continue
        step = "" if one.step is None else f" (saved at step {one.step})"
        left = "" if not one.left else f", about {duration(one.left)} left"
        say_sentence(
            f"{one.folder}: {one.stage}{step}, {one.learned} of {one.tasks} tasks learned, "
            f"{one.measured} rows measured, {duration(one.seconds)} spent{left}"
        )
