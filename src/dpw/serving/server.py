"""Running the application: one process or several on one port, ended without losing what was accepted."""

import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch

from dpw.data.cores import limit_threads
from dpw.errors import DpwError, InputError
from dpw.serving.app import Limits, make_app
from dpw.serving.metrics import Metrics
from dpw.serving.served import load_served
from dpw.serving.watching import ModelWatcher

if TYPE_CHECKING:
    from uvicorn import Server

Say = Callable[[str], None]
HEADER_SECONDS = 20.0  # for the header of a request to come


@dataclass(frozen=True)
class ServeSettings:
    """What `dpw serve` was asked for.

    Attributes:
        model: a model folder, or a CLIP that has learned nothing.
        host, port: where to listen; port 0 takes a free one.
        processes: how many processes share the port.
        threads: of each process for computing; its share of the machine by default.
        limits: how much is taken on at once.
        token: what clients must send; nobody is asked by default.
        look_seconds: time between two looks at the model folder.
        grace_seconds: how long accepted requests may take once the server is asked to end.
        backbone, device, allow_download: as for `ContinualCLIP.from_pretrained`.
    """

    model: str
    host: str = "127.0.0.1"
    port: int = 8000
    processes: int = 1
    threads: int | None = None
    limits: Limits = field(default_factory=Limits)
    token: str | None = None
    look_seconds: float = 1.0
    grace_seconds: float = 30.0
    backbone: str | None = None
    device: str | None = None
    allow_download: bool = False


def listen(host: str, port: int, shared: bool = False) -> socket.socket:
    """A socket bound to an address; `shared` lets other sockets of this user bind it too.

    Raises:
        InputError: the address is not this machine's, or the port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind((host, port))
    except (OSError, OverflowError) as error:
        bound.close()
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"cannot listen at {host} port {port} ({reason}): choose another by --host and --port"
        ) from error
    return bound


def address_of(bound: socket.socket) -> str:
    """The address of a bound socket as people type it."""
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def run_process(
    settings: ServeSettings,
    bound: socket.socket,
    say: Say,
    *,
    on_ready: Callable[[ModelWatcher], None],
    on_server: Callable[["Server"], None] = lambda _: None,
    metrics: Metrics | None = None,
) -> None:
    """Load the model, answer until a signal comes, and finish what was accepted.

    Raises:
        InputError: the model cannot be loaded.
    """
    import uvicorn

    silent = SilentClients()

    class Announcing(uvicorn.Server):
        """Says when it takes requests, and closes connections on which none comes."""

        async def on_tick(self, counter: int) -> bool:
            """Look at the connections once a second; uvicorn itself asks ten times."""
            if counter % 10 == 0:
                silent.close(self.server_state.connections, time.monotonic())
            return await super().on_tick(counter)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            """Begin to listen, then say so."""
            await super().startup(sockets)
            on_ready(watcher)

    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
        limit_threads(settings.threads)
    log_to(say)
    load = partial(
        load_served,
        settings.model,
        backbone=settings.backbone,
        device=settings.device,
        allow_download=settings.allow_download,
    )
    watcher = ModelWatcher(Path(settings.model), load, settings.look_seconds)
    app = make_app(watcher, settings.limits, token=settings.token, metrics=metrics)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=max(1, round(settings.grace_seconds)),
    )
    server = Announcing(config)
    on_server(server)
    with _signals_end_quietly():
        server.run(sockets=[bound])


class SilentClients:
    """Closes connections that send no whole header within a time; else a few clients hold all of them."""

    def __init__(self, seconds: float = HEADER_SECONDS) -> None:
        """Wait so many seconds for the header of a request."""
        self.seconds = seconds
        self._since: WeakKeyDictionary[Any, tuple[int, float]] = WeakKeyDictionary()

    def close(self, connections: Iterable[Any], now: float) -> None:
        """Close those among uvicorn's connections whose client has been silent for too long."""
        for one in list(connections):
            answered = one.cycle is None or one.cycle.response_complete
            request, since = self._since.get(one, (0, now))
            if not answered or request != id(one.cycle):
                since = now
            self._since[one] = id(one.cycle), since
            if answered and now - since > self.seconds:
                one.transport.close()


def log_to(say: Say) -> None:
    """Send what the server and its libraries log to a function that writes lines."""

    class Lines(logging.Handler):
        """Writes each record as one line, and the traceback of a failure below it."""

        def emit(self, record: logging.LogRecord) -> None:
            """Write one record."""
            say(self.format(record))

    for name, level in (("dpw.serve", logging.INFO), ("uvicorn.error", logging.WARNING)):
        logger = logging.getLogger(name)
        handler = Lines()
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    for name in ("python_multipart", "multipart"):  # says of every bad form what its refusal says too
        logging.getLogger(name).setLevel(logging.CRITICAL)


@contextmanager
def _signals_end_quietly() -> Iterator[None]:
    """The server itself obeys SIGINT and SIGTERM; that it did is no reason for an exit code."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    both = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, _nothing) for number in both]
    try:
        yield
    finally:
        for number, handler in zip(both, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def asked_to_end() -> Iterator[threading.Event]:
    """An event that is set by SIGINT or SIGTERM."""
    ended = threading.Event()
    both = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: ended.set()) for number in both]
    try:
        yield ended
    finally:
        for number, handler in zip(both, before, strict=True):
            signal.signal(number, handler)


def _nothing(number: int, frame: Any) -> None:
    """A signal that was obeyed already."""


def serve_alone(settings: ServeSettings, say: Say) -> None:
    """Serve a model by this process until a signal comes."""
    bound = listen(settings.host, settings.port)
    try:
        address = address_of(bound)
        run_process(settings, bound, say, on_ready=lambda watcher: say(greeting(settings, address, watcher)))
    except DpwError:
        bound.close()
        raise


def greeting(settings: ServeSettings, address: str, watcher: ModelWatcher) -> str:
    """The line that says that requests are taken."""
    tasks = ", ".join(watcher.current.learner.tasks) or "nothing learned: requests must name classes"
    several = f" by {settings.processes} processes" if settings.processes > 1 else ""
    return f"serving {settings.model} at {address}{several} ({tasks})"
