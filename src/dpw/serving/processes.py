"""Several server processes on one port: started, watched, restarted and ended together."""

import multiprocessing
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import TYPE_CHECKING

from dpw.data.cores import usable_cores
from dpw.errors import DpwError, InputError
from dpw.serving.metrics import Metrics, make_shared
from dpw.serving.server import (
    Say,
    ServeSettings,
    address_of,
    asked_to_end,
    greeting,
    listen,
    run_process,
    serve_alone,
)
from dpw.serving.watching import ModelWatcher

if TYPE_CHECKING:
    from uvicorn import Server

RESTART_SECONDS = 1.0  # before a process that died is started again


class Worker:
    """One process of the server, with a pipe on which it says that it is ready or why it cannot be."""

    def __init__(
        self, settings: ServeSettings, bound: socket.socket, say: Say, number: int, numbers: Path
    ) -> None:
        """Start it on a socket of its own."""
        spawn = multiprocessing.get_context("spawn")
        self.number = number
        self.pipe, other = spawn.Pipe()
        self.process: SpawnProcess = spawn.Process(
            target=_work, args=(settings, bound, say, number, numbers, other), name=f"dpw-serve-{number}"
        )
        self.process.start()
        other.close()

    def hear(self) -> str:
        """Wait until it takes requests; gives its greeting.

        Raises:
            InputError: it cannot, in its own words.
        """
        try:
            ready, sentence = self.pipe.recv()
        except EOFError:
            self.process.join()
            raise InputError(
                f"process {self.number} of the server ended with code {self.process.exitcode} while starting"
            ) from None
        if not ready:
            raise InputError(sentence)
        return str(sentence)


def serve(settings: ServeSettings, say: Say) -> None:
    """Serve a model until a signal comes.

    Args:
        settings: what was asked for.
        say: writes a line for people; must be importable by name for several processes.

    Raises:
        InputError: the model cannot be loaded, or the address cannot be used.
    """
    if settings.processes > 1:
        supervise(settings, say)
    else:
        serve_alone(settings, say)


def supervise(settings: ServeSettings, say: Say) -> None:
    """Serve by several processes until a signal comes; one that dies is started again.

    Raises:
        InputError: a process cannot start.
    """
    if not hasattr(socket, "SO_REUSEPORT"):
        raise InputError("this system cannot share a port among processes: leave --processes out")
    threads = settings.threads or max(1, usable_cores() // settings.processes)
    with ExitStack() as open_now:
        folder = open_now.enter_context(tempfile.TemporaryDirectory(prefix="dpw-serve-"))
        ended = open_now.enter_context(asked_to_end())
        sockets: list[socket.socket] = []
        for _ in range(settings.processes):  # the first finds the port, the others share it
            port = sockets[0].getsockname()[1] if sockets else settings.port
            sockets.append(open_now.enter_context(listen(settings.host, port, shared=True)))
        _run(replace(settings, threads=threads), sockets, Path(folder) / "metrics", ended, say)


def _run(
    settings: ServeSettings, sockets: list[socket.socket], numbers: Path, ended: threading.Event, say: Say
) -> None:
    """Start a process on each socket, keep them running, and end them together."""

    def start(number: int) -> Worker:
        """One process."""
        return Worker(settings, sockets[number], say, number, numbers)

    make_shared(numbers, settings.processes)
    workers = [start(number) for number in range(settings.processes)]
    try:
        greetings = [worker.hear() for worker in workers]
        say(greetings[0])
        _watch(workers, ended, lambda worker: start(worker.number), say)
    finally:
        _end(workers, settings.grace_seconds + 5)


def _watch(
    workers: list[Worker], ended: threading.Event, again: Callable[[Worker], Worker], say: Say
) -> None:
    """Start processes that die again, until the server is asked to end."""
    while not ended.is_set():
        wait([worker.process.sentinel for worker in workers], timeout=0.5)
        for index, worker in enumerate(workers):
            if worker.process.exitcode is None or ended.is_set():
                continue
            say(f"process {worker.number} ended with code {worker.process.exitcode}: starting it again")
            worker.pipe.close()
            time.sleep(RESTART_SECONDS)
            workers[index] = again(worker)


def _end(workers: list[Worker], seconds: float) -> None:
    """Ask all to finish what they accepted, and end those that do not."""
    for worker in workers:
        if worker.process.exitcode is None:
            worker.process.terminate()
    deadline = time.monotonic() + seconds
    for worker in workers:
        worker.process.join(max(0.1, deadline - time.monotonic()))
        if worker.process.exitcode is None:
            worker.process.kill()
            worker.process.join()


def _work(
    settings: ServeSettings, bound: socket.socket, say: Say, number: int, numbers: Path, pipe: Connection
) -> None:
    """The life of one process; it ends when its parent does, however that ends."""

    def ready(watcher: ModelWatcher) -> None:
        """Tell the parent."""
        pipe.send((True, greeting(settings, address_of(bound), watcher)))

    def follow(server: "Server") -> None:
        """End when the other side of the pipe is gone."""
        threading.Thread(target=_end_with_parent, args=(server, pipe), daemon=True).start()

    try:
        metrics = Metrics(numbers, number, settings.processes)
        run_process(settings, bound, say, on_ready=ready, on_server=follow, metrics=metrics)
    except DpwError as error:
        pipe.send((False, str(error)))


def _end_with_parent(server: "Server", pipe: Connection) -> None:
    """Wait for the end of the pipe, on which the parent never sends, and let the server finish."""
    try:
        pipe.recv()
    except (EOFError, OSError):
        server.should_exit = True
