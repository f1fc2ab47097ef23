"""`dpw play`: a model in the browser."""

from typing import Annotated

import typer

from dpw.cli.learn import AllowDownload, Backbone
from dpw.cli.output import say


def play(
    model: Annotated[str, typer.Argument(help="A model folder, or a CLIP (then type classes).")],
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Only show: no teaching, no forgetting.")
    ] = False,
    host: Annotated[
        str, typer.Option(help="Address to listen at; this machine alone by default.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the page.")] = 7860,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    backbone: Backbone = None,
    device: Annotated[str | None, typer.Option(help="Where to compute; found by default.")] = None,
    allow_download: AllowDownload = False,
) -> None:
    """Ask, look inside, teach and forget in the browser; nothing leaves this machine. Ctrl-C ends it."""
    from dpw.serving.extras import need_extra

    need_extra("dpw play", "play", "gradio", "matplotlib")
    from functools import partial

    from dpw.serving.desk import Desk
    from dpw.serving.played import run
    from dpw.serving.served import load_served

    load = partial(load_served, model, backbone=backbone, device=device, allow_download=allow_download)
    run(Desk(model, read_only=read_only, load=load), host, port, browser, lambda text: say(text, err=True))
