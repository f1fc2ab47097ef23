"""A Ray cluster: one started on this machine for a while, or one that is already there."""

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dpw.errors import InputError

LOCAL = "local"
ANSWER = 10.0  # seconds in which a head must take a connection; Ray itself asks for minutes


def ray_module() -> Any:
    """Ray, which is an extra; it reports nothing to anybody and keeps its warnings in its own log files."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "error")
    try:
        import ray
    except ImportError as error:
        raise InputError("--cluster needs Ray: pip install 'dpw[cluster]'") from error
    logging.getLogger("ray").setLevel(logging.ERROR)
    return ray


def local_workers(cluster: str) -> int | None:
    """How many workers `local:N` asks for; None for as many as there are cores, or another cluster."""
    name, _, count = cluster.partition(":")
    if name != LOCAL or not count:
        return None
    if not count.isdigit() or int(count) < 1:
        raise InputError(f"--cluster {cluster}: give local:N with a number of workers, such as local:2")
    return int(count)


def refuse_silent(cluster: str) -> None:
    """Refuse an address at which nothing listens, which Ray would go on asking for minutes."""
    if cluster.partition(":")[0] == LOCAL or cluster == "auto":
        return
    host, _, port = cluster.rpartition(":")
    if not host or not port.isdigit() or "://" in cluster:
        raise InputError(
            f"--cluster {cluster!r} is no cluster: give local, local:N, auto, or HOST:PORT of its head, such "
            "as 10.0.0.1:6379"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER).close()
    except (OSError, OverflowError) as error:
        raise InputError(_nobody(cluster, str(error))) from error


def _nobody(cluster: str, reason: str) -> str:
    """The sentence about a cluster that is not there."""
    token = "" if os.environ.get("RAY_AUTH_MODE") else "; one that asks for a token wants RAY_AUTH_MODE=token"
    return (
        f"no Ray cluster answers at {cluster} ({reason:.200}): start one by 'ray start --head', give its "
        f"address, or use --cluster local{token}"
    )


@contextmanager
def connected(cluster: str) -> Iterator[Any]:
    """Ray, connected to a cluster: `local`, `local:N`, `auto`, or an address such as `10.0.0.1:6379`.

    A local cluster ends with the block. Within a process that is connected already, that one is used.
    """
    ray, count = ray_module(), local_workers(cluster)
    if ray.is_initialized():
        yield ray
        return
    refuse_silent(cluster)
    before = signal.getsignal(signal.SIGTERM)
    quiet = {"log_to_driver": False, "configure_logging": False, "logging_level": "error"}
    try:
        if cluster.partition(":")[0] == LOCAL:
            ray.init(address=LOCAL, num_cpus=count, include_dashboard=False, **quiet)
        else:
            ray.init(address=cluster, **quiet)
    except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(_nobody(cluster, reason)) from error
    try:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGTERM, before)  # Ray puts its own there, but it is the caller's to decide
        yield ray
    finally:
        ray.shutdown()


def resources(ray: Any, threads: int) -> dict[str, Any]:
    """What one job asks for: a core for each thread, and a device where the cluster has any.

    Raises:
        InputError: no machine has so many cores, so that the job would wait for ever.
    """
    there = ray.cluster_resources()
    most = max((node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]), default=0)
    if 0 < most < threads:
        raise InputError(f"--threads {threads}: no machine of the cluster has more than {most:.0f} cores")
    return {"num_cpus": threads, "num_gpus": 1 if there.get("GPU") else 0}


def slots(ray: Any, threads: int) -> int:
    """How many jobs can run at once."""
    there = ray.cluster_resources()
    return max(1, int(there.get("GPU") or there.get("CPU", 1) // threads))
