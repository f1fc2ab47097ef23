"""A Ray cluster: one started on this machine for a while, or one that is already there."""

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dpw.errors import InputError

LOCAL = "local"
STDERR = 2
ANSWER = 10.0  # seconds in which a head must take a connection; Ray itself asks for minutes
STARTS = 3  # times that a local cluster is begun; Ray gives each 30 s, too few on a busy machine
SILENCE = 15.0  # seconds of silence after which a head is lost; Ray ends the process after 60
RETURN = 600.0  # seconds to wait for a head that is being started again


class HeadLostError(InputError):
    """The head of a cluster has ended while it was needed; what was committed is in the shared folder."""

    def __init__(self, address: str, devices: bool) -> None:
        """Say which head it was, and whether its cluster had GPUs."""
        super().__init__(
            f"the head of the Ray cluster at {address} does not answer any more: start it again, then give "
            "the same command; what was learned is kept"
        )
        self.address, self.devices = address, devices


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
    if not host or not port.isdigit() or "://" in cluster:  # Ray's client (ray://) runs half of a driver
        raise InputError(
            f"--cluster {cluster!r} is no cluster: give local, local:N, auto, or HOST:PORT of its head, such "
            "as 10.0.0.1:6379"
        )
    if (reason := silence(cluster)) is not None:
        raise InputError(_nobody(cluster, reason))


def silence(address: str, seconds: float = ANSWER) -> str | None:
    """Why nothing takes a connection at HOST:PORT, or None if something does."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=seconds).close()
    except (OSError, OverflowError) as error:
        return str(error)
    return None


class Head:
    """Looks now and then whether the head of a connected cluster is still there."""

    def __init__(self, ray: Any, every: float = 5.0) -> None:
        """Remember where it is."""
        self.address = str(ray.get_runtime_context().gcs_address)
        self.devices, self.every = bool(ray.cluster_resources().get("GPU")), every
        self.looked = self.heard = time.monotonic()

    def refuse_lost(self, patience: float = SILENCE) -> None:
        """Raise `HeadLostError` once nothing was heard for so many seconds."""
        now = time.monotonic()
        if patience and now - self.looked < self.every:
            return
        self.looked = now
        if silence(self.address, self.every) is None:
            self.heard = time.monotonic()
        elif time.monotonic() - self.heard > patience:
            raise HeadLostError(self.address, self.devices)


def wait_for_head(lost: HeadLostError, should_stop: Callable[[], bool], seconds: float = RETURN) -> None:
    """Wait until a head that was lost takes connections again; raises what was lost after so many seconds."""
    deadline = time.monotonic() + seconds
    while silence(lost.address, 5.0) is not None:
        if should_stop() or time.monotonic() > deadline:
            raise lost
        time.sleep(2.0)


def wait_for_devices(ray: Any, lost: HeadLostError, should_stop: Callable[[], bool]) -> None:
    """Wait until the machines are back: jobs for GPUs must not begin while only a head without one is."""
    deadline = time.monotonic() + RETURN
    while True:
        there = ray.cluster_resources()
        if there.get("CPU") and bool(there.get("GPU")) >= lost.devices:
            return
        if should_stop() or time.monotonic() > deadline:
            raise lost
        time.sleep(2.0)


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
    try:
        _begin(ray, cluster, count)
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGTERM, before)  # Ray puts its own there, but it is the caller's to decide
        yield ray
    finally:
        ray.shutdown()


@contextmanager
def _core_is_silent() -> Iterator[None]:
    """Keep the core of Ray, which is no Python, from saying that it was told to be silent."""
    try:
        kept, nowhere = os.dup(STDERR), os.open(os.devnull, os.O_WRONLY)
    except OSError:  # there is no standard error
        yield
        return
    try:
        os.dup2(nowhere, STDERR)
        yield
    finally:
        os.dup2(kept, STDERR)
        os.close(kept)
        os.close(nowhere)


def _begin(ray: Any, cluster: str, count: int | None) -> None:
    """Start a local cluster or connect to another; a start that took Ray too long is tried again."""
    local = cluster.partition(":")[0] == LOCAL
    more = (
        {"address": LOCAL, "num_cpus": count, "include_dashboard": False} if local else {"address": cluster}
    )
    for left in reversed(range(STARTS if local else 1)):
        try:
            with _core_is_silent():
                ray.init(log_to_driver=False, configure_logging=False, logging_level="error", **more)
            return
        except Exception as error:  # of several kinds; of a node that starts too slowly it is just this
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            if left:
                ray.shutdown()
                continue
            if not local:
                raise InputError(_nobody(cluster, reason)) from error
            raise InputError(
                f"no cluster could be started on this machine ({reason:.200}): try again when it is less "
                "busy, or leave --cluster out"
            ) from error


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
