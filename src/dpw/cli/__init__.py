"""The `dpw` command: thin, and quick to answer because every command imports its work when it runs."""

import errno
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from dpw import DpwError, __version__
from dpw.cli import (
    benchmarks,
    clip,
    cluster,
    compare,
    data,
    evaluate,
    export,
    learn,
    look,
    methods,
    play,
    predict,
    reproduce,
    run,
    serve,
    share,
    sweep,
)
from dpw.cli.output import say, say_error, say_text
from dpw.engine.memory import keep_freed_memory

TRACEBACK = "DPW_TRACEBACK"  # set: errors that nobody foresaw are shown whole
CLICK_ERROR = typer.BadParameter.__mro__[2]  # click's root of usage errors, which typer may carry itself

app = typer.Typer(
    name="dpw",
    help="Teach CLIP new image domains one after another, without forgetting and without task ids.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


IMAGES, BENCHMARKS, FURTHER, FACTS = "Your images", "Benchmarks", "Serve and share", "What there is"

app.command(epilog=learn.SETTINGS, rich_help_panel=IMAGES)(learn.learn)
app.command(rich_help_panel=IMAGES)(predict.predict)
app.command(rich_help_panel=IMAGES)(evaluate.evaluate)
app.command(rich_help_panel=IMAGES)(look.explain)
app.add_typer(learn.tasks, name="tasks", rich_help_panel=IMAGES)
app.command(rich_help_panel=IMAGES)(learn.forget)
app.command(epilog=run.SETTINGS, rich_help_panel=BENCHMARKS)(run.run)
app.command(rich_help_panel=BENCHMARKS)(run.resume)
app.command(rich_help_panel=BENCHMARKS)(cluster.status)
app.command(rich_help_panel=BENCHMARKS)(compare.compare)
app.command(rich_help_panel=BENCHMARKS)(look.report)
app.command(rich_help_panel=BENCHMARKS)(look.figures)
app.command(rich_help_panel=BENCHMARKS)(reproduce.reproduce)
app.command(rich_help_panel=BENCHMARKS)(sweep.sweep)
app.command(rich_help_panel=FURTHER)(serve.serve)
app.command(rich_help_panel=FURTHER)(play.play)
app.command(rich_help_panel=FURTHER)(export.export)
app.command(rich_help_panel=FURTHER)(share.push)
app.command(rich_help_panel=FURTHER)(share.pull)
app.command(rich_help_panel=FACTS)(methods.methods)
app.command("benchmarks", rich_help_panel=FACTS)(benchmarks.benchmarks)
app.command(rich_help_panel=FACTS)(clip.clip)
app.add_typer(data.app, name="data", rich_help_panel=FACTS)


def _version(requested: bool) -> None:
    """Print the version and stop."""
    if requested:
        say(f"dpw {__version__}")
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
    with obeying_signals():
        keep_freed_memory()
        sys.exit(_exit_code())


def _exit_code() -> int:
    """Carry the command out and put whatever goes wrong into one sentence."""
    try:
        code = app(standalone_mode=False)
        return code if isinstance(code, int) else 0
    except DpwError as error:
        say_error(str(error))
    except typer.Abort:
        say_error("stopped")
    except OSError as error:
        if error.errno == errno.EPIPE:  # whoever read our output has gone, such as `head`
            sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
            return 1
        say_error(f"{error.filename or 'the system'}: {error.strerror or error}; mend that and try again")
    except (RecursionError, MemoryError) as error:
        say_error(f"what was given is too big or too deep ({type(error).__name__}): give less at once")
    except UnicodeError as error:
        say_error(
            f"a name or file is no text in UTF-8 ({getattr(error, 'reason', error)}): rename or convert it"
        )
    except CLICK_ERROR as error:  # type: ignore[misc]
        return _show_usage(error)
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        say_error(_own_mistake(error))
    return 2


def _own_mistake(error: Exception) -> str:
    """An error that nobody foresaw is a mistake of the program: where it is, and how to see all of it."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    reason = (str(error).splitlines() or [""])[0][:200]
    where = f"{os.path.basename(place.filename)}, line {place.lineno}"  # noqa: PTH119
    return (
        f"a mistake of dpw itself ({type(error).__name__}: {reason}; {where}): please report it together "
        f"with what {TRACEBACK}=1 shows"
    )


def _show_usage(error: Any) -> int:
    """A command or option that does not exist, in click's words."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        if context is not None:
            say_text(context.get_usage(), err=True)
        say_error(error.format_message())
    return int(error.exit_code)


@contextmanager
def obeying_signals() -> Iterator[None]:
    """End with the customary exit code when a signal comes while nothing is being trained."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    both = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, _stop) for number in both]
    try:
        yield
    finally:
        for number, handler in zip(both, before, strict=True):
            signal.signal(number, handler)


def _stop(number: int, frame: object) -> None:  # noqa: ARG001
    """Say so and end."""
    raise SystemExit(128 + number)
