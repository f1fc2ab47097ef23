"""`dpw serve`: a model behind an HTTP address."""

from typing import Annotated

import typer

from dpw.cli.learn import AllowDownload, Backbone
from dpw.cli.output import say


def say_line(text: str) -> None:
    """Write what a server has to say, from whichever process."""
    say(text, err=True)


def serve(
    model: Annotated[str, typer.Argument(help="A model folder, or a CLIP (then requests name classes).")],
    host: Annotated[
        str, typer.Option(help="Address to listen at; 0.0.0.0 for all of this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    processes: Annotated[int, typer.Option(min=1, max=256, help="Processes that share the port.")] = 1,
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="Computing threads of a process; its share of the cores by default."),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Images computed together at most.")] = 64,
    wait: Annotated[float, typer.Option(min=0, help="Milliseconds to wait for company at most.")] = 10.0,
    queue: Annotated[int, typer.Option(min=1, help="Images that may wait; beyond, clients get 429.")] = 512,
    max_images: Annotated[int, typer.Option(min=1, help="Images in one request at most.")] = 64,
    max_megabytes: Annotated[float, typer.Option(min=0.001, help="Size of one request at most.")] = 32.0,
    max_megapixels: Annotated[
        float, typer.Option(min=0.001, help="Megapixels of all images of one request at most.")
    ] = 256.0,
    max_classes: Annotated[int, typer.Option(min=1, help="Classes that one request may name.")] = 1000,
    token: Annotated[
        str | None,
        typer.Option(envvar="DPW_TOKEN", help="Clients must send 'Authorization: Bearer TOKEN'."),
    ] = None,
    look_seconds: Annotated[
        float, typer.Option(min=0.01, help="Seconds between two looks at the model folder.")
    ] = 1.0,
    grace_seconds: Annotated[
        float, typer.Option(min=1, help="Seconds that accepted requests may take when the server ends.")
    ] = 30.0,
    device: Annotated[str | None, typer.Option(help="Where to compute; found by default.")] = None,
    backbone: Backbone = None,
    allow_download: AllowDownload = False,
) -> None:
    """Answer over HTTP: POST /predict, /tasks, /readyz, /metrics; the page at / says more.

    The model may be taught while it is served. Ctrl-C or SIGTERM finishes what was accepted.
    """
    _refuse(token, queue, max_images)
    from dpw.serving.app import Limits
    from dpw.serving.processes import serve as run
    from dpw.serving.server import ServeSettings

    sizes = round(max_megabytes * 1e6), max_classes, round(max_megapixels * 1e6)
    limits = Limits(batch, wait / 1000, queue, max_images, *sizes)
    settings = ServeSettings(
        model,
        host=host,
        port=port,
        processes=processes,
        threads=threads,
        limits=limits,
        token=token,
        look_seconds=look_seconds,
        grace_seconds=grace_seconds,
        backbone=backbone,
        device=device,
        allow_download=allow_download,
    )
    run(settings, say_line)


def _refuse(token: str | None, queue: int, max_images: int) -> None:
    """Refuse what cannot be served, before torch is there."""
    from dpw import InputError
    from dpw.serving.extras import need_extra

    need_extra("dpw serve", "serve", "fastapi", "uvicorn", "python_multipart")
    if token is not None and not token.strip():
        raise InputError("the token is empty: give one of at least one character, or leave it out")
    if queue < max_images:
        raise InputError(
            f"--queue {queue} has no room for one request of --max-images {max_images}: raise it"
        )
