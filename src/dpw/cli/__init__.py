"""The `dpw` command: thin, and quick to answer because every command imports its work when it runs."""

import sys
from typing import Annotated

import typer

from dpw import DpwError, __version__
from dpw.cli import benchmarks, compare, data, learn, look, reproduce, run

app = typer.Typer(
    name="dpw",
    help="Teach CLIP new image domains one after another, without forgetting and without task ids.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


app.command()(learn.learn)
app.command()(learn.predict)
app.add_typer(learn.tasks, name="tasks")
app.command()(learn.forget)
app.command()(run.run)
app.command()(run.resume)
app.command()(run.methods)
app.command()(compare.compare)
app.command()(reproduce.reproduce)
app.command()(look.report)
app.command()(look.figures)
app.command()(look.explain)
app.command("benchmarks")(benchmarks.benchmarks)
app.add_typer(data.app, name="data")


def _version(requested: bool) -> None:
    """Print the version and stop."""
    if requested:
        typer.echo(f"dpw {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options that stand before a command."""


def main() -> None:
    """Run the command line; a mistake of the user's is one sentence on stderr and exit code 2."""
    try:
        app()
    except DpwError as error:
        typer.echo(f"dpw: {error}", err=True)
        sys.exit(2)
