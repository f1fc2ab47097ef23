"""Seeing a training happen in a notebook; everywhere else it is silent unless a callback is given."""

import sys
import time
from html import escape
from typing import Any

from dpw.engine.callbacks import TrainingCallback

SECONDS = 0.2  # between two drawings of the bar


def usual_callback() -> TrainingCallback:
    """Who hears of a training if nobody was named: a bar in a notebook, otherwise nobody."""
    display = notebook_display()
    return TrainingCallback() if display is None else NotebookCallback(display)


def notebook_display() -> Any:
    """IPython's display module if this code runs in a notebook (not in a terminal), or None."""
    ipython: Any = sys.modules.get("IPython")  # in a notebook it is always loaded
    shell = None if ipython is None else ipython.get_ipython()
    if not hasattr(shell, "kernel"):
        return None
    from importlib import import_module

    return import_module("IPython.display")


class NotebookCallback(TrainingCallback):
    """One bar for each task below the cell, with step, epoch, loss and time left; needs no widgets."""

    def __init__(self, display: Any) -> None:
        """`display` is IPython's display module."""
        self.display = display
        self.handle: Any = None
        self.steps, self.first, self.validation = 0, 0, ""
        self.started = self.drawn = 0.0

    def on_begin(self, task: str, steps: int, done: int) -> None:
        """Show the bar."""
        self.steps, self.first, self.validation = steps, done, ""
        self.started = time.monotonic()
        self.handle = self.display.display(self._bar(task, done, "starting"), display_id=True)

    def on_step(self, task: str, epoch: int, epochs: int, step: int, loss: float) -> None:
        """Move the bar, a few times a second at most."""
        now = time.monotonic()
        if now - self.drawn < SECONDS and step < self.steps:
            return
        self.drawn = now
        left = (now - self.started) / max(step - self.first, 1) * (self.steps - step)
        text = f"epoch {epoch + 1}/{epochs} · step {step}/{self.steps} · loss {loss:.3f} · {left:.0f} s left"
        self._update(task, step, text + self.validation)

    def on_validation(self, task: str, epoch: int, accuracy: float) -> None:  # noqa: ARG002
        """Name the newest accuracy on validation images from the next step on."""
        self.validation = f" · validation {100 * accuracy:.1f} %"

    def on_end(self, task: str) -> None:
        """Leave a finished bar."""
        seconds = time.monotonic() - self.started
        self._update(task, self.steps, f"learned in {seconds:.0f} s{self.validation}")

    def _update(self, task: str, step: int, text: str) -> None:
        """Draw again in the same place."""
        if self.handle is not None:
            self.handle.update(self._bar(task, step, text))

    def _bar(self, task: str, step: int, text: str) -> Any:
        """The bar as HTML."""
        return self.display.HTML(
            f'<div><b>{escape(task)}</b> <progress value="{step}" max="{self.steps}"></progress> '
            f"{escape(text)}</div>"
        )
