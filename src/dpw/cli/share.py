"""`dpw push` and `dpw pull`: models by the Hugging Face hub."""

from pathlib import Path
from typing import Annotated

import typer

from dpw.cli.output import say


def push(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    name: Annotated[str, typer.Argument(help="Where to: name/model on the hub.")],
    private: Annotated[bool, typer.Option("--private", help="Only you can see a new one.")] = False,
    licence: Annotated[str | None, typer.Option(help="Of your tensors, such as apache-2.0.")] = None,
    clip: Annotated[
        str | None, typer.Option(help="Hub name of the CLIP below, if the model knows it as a folder.")
    ] = None,
) -> None:
    """Put a model on the Hugging Face hub, with a card that says what it knows."""
    from dpw.serving.hub import push_to_hub

    say(f"pushed to {push_to_hub(model, name, private=private, licence=licence, clip=clip)}")


def pull(
    name: Annotated[str, typer.Argument(help="A model on the hub: name/model.")],
    folder: Annotated[Path, typer.Argument(help="A new folder for it.")],
    revision: Annotated[str | None, typer.Option(help="A branch, tag or commit.")] = None,
) -> None:
    """Copy a model from the Hugging Face hub into a folder, every file checked."""
    from dpw.serving.hub import pull as fetch

    say(f"{folder} knows: {', '.join(fetch(name, folder, revision=revision)) or 'nothing yet'}")
