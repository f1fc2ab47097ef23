"""A Ray cluster: one started on this machine for a while, or one that is already there."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dpw.errors import InputError

LOCAL = "local"


def ray_module() -> Any:
    """Ray, which is an extra; it reports nothing to anybody."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise InputError("--cluster needs Ray: pip install 'dpw[cluster]'") from error
    return ray


def local_workers(cluster: str) -> int | None:
    """How many workers `local:N` asks for; None for as many as there are cores, or another cluster."""
    name, _, count = cluster.partition(":")
    if name != LOCAL or not count:
        return None
    if not count.isdigit() or int(count) < 1:
        raise InputError(f"--cluster {cluster}: give local:N with a number of workers, such as local:2")
    return int(count)


@contextmanager
def connected(cluster: str) -> Iterator[Any]:
    """Ray, connected to a cluster: `local`, `local:N`, `auto`, or an address such as `10.0.0.1:6379`.

    A local cluster ends with the block. Within a process that is connected already, that one is used.
    """
    ray, count = ray_module(), local_workers(cluster)
    if ray.is_initialized():
        yield ray
        return
    before = signal.getsignal(signal.SIGTERM)
    quiet = {"log_to_driver": False, "configure_logging": False, "logging_level": "error"}
    try:
        if cluster.partition(":")[0] == LOCAL:
            ray.init(address=LOCAL, num_cpus=count, include_dashboard=False, **quiet)
        else:
            ray.init(address=cluster, **quiet)
    except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"no Ray cluster answers at {cluster} ({reason:.200}): start one by 'ray start --head', give its "
            "address, or use --cluster local"
        ) from error
    try:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGTERM, before)  # Ray puts its own there, but it is the caller's to decide
        yield ray
    finally:
        ray.shutdown()


def resources(ray: Any, threads: int) -> dict[str, Any]:
    """What one job asks for: a core for each thread, and a device where the cluster has any."""
    there = ray.cluster_resources()
    return {"num_cpus": threads, "num_gpus": 1 if there.get("GPU") else 0}


def slots(ray: Any, threads: int) -> int:
    """How many jobs can run at once."""
    there = ray.cluster_resources()
    return max(1, int(there.get("GPU") or there.get("CPU", 1) // threads))
