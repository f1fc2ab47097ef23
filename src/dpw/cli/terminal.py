"""Seeing a long training happen on a terminal, and stopping it without losing work."""

import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from dpw import TrainingCallback
from dpw.cli.output import plain

console = Console(stderr=True)
Answer = TypeVar("Answer")


LONGEST_NAME = 16  # letters of a task's name in front of its bar
FIXED = LONGEST_NAME + 34  # columns that name, bar and time left take


def progress_bars() -> Progress:
    """The one look of everything that takes long: name, bar, time left, then details as far as they fit."""
    return Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=12),
        TimeRemainingColumn(),
        TextColumn("left  {task.fields[details]}"),
        console=console,
        disable=not console.is_terminal,
    )


def name_of(text: str) -> str:
    """A name for the front of a bar: nothing in it acts, and a long one is cut."""
    shown = plain(text)
    return escape(shown if len(shown) <= LONGEST_NAME else f"{shown[: LONGEST_NAME - 1]}…")


def fitting(details: Sequence[str], width: int) -> str:
    """As many details as a line of a width holds, the first ones first.

    Example:
        >>> from dpw.cli.terminal import fitting
        >>> fitting(["loss 0.25", "step 3/400", "epoch 1/10"], 76)
        'loss 0.25 · step 3/400'
    """
    shown = ""
    for detail in details:
        longer = f"{shown} · {detail}" if shown else detail
        if len(longer) > width - FIXED:
            break
        shown = longer
    return shown


class TerminalCallback(TrainingCallback):
    """A progress bar with task, time left, loss, step, epoch, validation and rate; silent off a terminal."""

    def __init__(self) -> None:
        """Prepare the bar; it appears with the first step."""
        self.bars = progress_bars()
        self.lines: dict[str, Any] = {}
        self.validation: dict[str, str] = {}

    def on_begin(self, task: str, steps: int, done: int) -> None:
        """Show a new line for the task, below everything that was said before."""
        self.bars.stop()
        self.bars = progress_bars()  # the stopped one would draw its old lines again, over what came since
        self.bars.start()
        self.lines[task] = self.bars.add_task(name_of(task), total=steps, completed=done, details="")

    def on_step(self, task: str, epoch: int, epochs: int, step: int, loss: float) -> None:
        """Move the bar."""
        bar = self.bars.tasks[self.lines[task]]
        details = [f"loss {loss:.3f}", f"step {step}/{bar.total:.0f}", f"epoch {epoch + 1}/{epochs}"]
        details += [self.validation[task]] if task in self.validation else []
        details += [] if bar.speed is None else [f"{bar.speed:.1f} steps/s"]
        self.bars.update(self.lines[task], completed=step, details=fitting(details, console.width))

    def on_validation(self, task: str, epoch: int, accuracy: float) -> None:  # noqa: ARG002
        """Show the newest validation accuracy from the next step on."""
        self.validation[task] = f"validation {100 * accuracy:.1f} %"

    def on_end(self, task: str) -> None:  # noqa: ARG002
        """Leave the finished line on the screen."""
        self.bars.stop()

    def on_message(self, message: str) -> None:
        """One line about what happens now."""
        if console.is_terminal:
            console.print(f"[dim]{escape(plain(message))}[/dim]")


def watched(answers: Iterable[Answer], images: Callable[[], int], done: int = 0) -> Iterator[Answer]:
    """Give answers on and show on a terminal how many of the images are done; elsewhere only give them on.

    `images()` counts all images and is asked only where somebody is watching.
    """
    if not console.is_terminal:
        yield from answers
        return
    with progress_bars() as bars:
        bar = bars.add_task("images", total=images(), completed=done, details="")
        for count, answer in enumerate(answers, done + 1):
            bars.update(bar, completed=count, details=f"{count:,} of {bars.tasks[bar].total:,.0f}")
            yield answer


class Fetching:
    """Shows on a terminal how far the files of a download have come; silent elsewhere."""

    def __init__(self) -> None:
        """Nothing is shown before the first piece."""
        self.bars = progress_bars()
        self.lines: dict[str, Any] = {}

    def __enter__(self) -> "Fetching":
        """Show bars."""
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the bars on the screen."""
        self.bars.stop()

    def __call__(self, file: str, done: int, total: int | None) -> None:
        """A file has `done` of `total` bytes; None where the server does not say how many there are."""
        if file not in self.lines:
            self.lines[file] = self.bars.add_task(name_of(file), total=total, details="")
        self.bars.update(self.lines[file], completed=done, details=f"{done / 1e6:.1f} MB")


class StopRequest:
    """Remembers that someone pressed Ctrl-C or asked the process to end."""

    def __init__(self) -> None:
        """Nobody has asked yet."""
        self.signal: int | None = None

    def __call__(self) -> bool:
        """Whether to stop after the current step."""
        return self.signal is not None

    def note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Stop at the next step; a second request stops at once."""
        if self.signal is not None:
            raise SystemExit(128 + number)
        self.signal = number


@contextmanager
def stopping() -> Iterator[StopRequest]:
    """Turn Ctrl-C and SIGTERM into a request that training answers after saving."""
    request = StopRequest()
    both = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, request.note) for number in both]
    try:
        yield request
    finally:
        for number, handler in zip(both, before, strict=True):
            signal.signal(number, handler)


def exit_code(request: StopRequest) -> int:
    """The customary code of a process that a signal ended."""
    return 128 + (request.signal or signal.SIGINT)
