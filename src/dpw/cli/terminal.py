"""Seeing a long training happen on a terminal, and stopping it without losing work."""

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from dpw import TrainingCallback
from dpw.cli.output import plain

console = Console(stderr=True)
Answer = TypeVar("Answer")


class TerminalCallback(TrainingCallback):
    """A progress bar with task, epoch, step, loss, rate and time left; silent when not on a terminal."""

    def __init__(self) -> None:
        """Prepare the bar; it appears with the first step."""
        self.bars = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            TextColumn("epoch {task.fields[epoch]} · step {task.completed:.0f}/{task.total:.0f}"),
            TextColumn("loss {task.fields[loss]:.3f} · {task.fields[rate]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self.lines: dict[str, Any] = {}

    def on_begin(self, task: str, steps: int, done: int) -> None:
        """Show a new line for the task."""
        self.bars.start()
        self.lines[task] = self.bars.add_task(
            escape(plain(task)), total=steps, completed=done, epoch="-", loss=0.0, rate="", note=""
        )

    def on_step(self, task: str, epoch: int, epochs: int, step: int, loss: float) -> None:
        """Move the bar."""
        speed = self.bars.tasks[self.lines[task]].speed
        rate = "" if speed is None else f"{speed:.1f} steps/s"
        self.bars.update(
            self.lines[task], completed=step, epoch=f"{epoch + 1}/{epochs}", loss=loss, rate=rate
        )

    def on_validation(self, task: str, epoch: int, accuracy: float) -> None:  # noqa: ARG002
        """Show the newest validation accuracy."""
        self.bars.update(self.lines[task], note=f"validation {100 * accuracy:.1f} %")

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
    columns = (TextColumn("images"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("left"), TimeRemainingColumn(), console=console) as bars:
        bar = bars.add_task("images", total=images(), completed=done)
        for answer in answers:
            bars.advance(bar)
            yield answer


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
