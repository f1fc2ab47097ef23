"""What takes long looks the same everywhere, and at 80 columns still says how long it will take."""

import io
import re

import pytest
from rich.console import Console

from dpw.cli import terminal


@pytest.fixture
def screen(monkeypatch):
    """A terminal of a chosen width whose output can be read."""

    def make(width):
        console = Console(file=io.StringIO(), force_terminal=True, width=width, legacy_windows=False)
        monkeypatch.setattr(terminal, "console", console)
        return console.file

    return make


def train(steps, task="materials-of-a-long-name"):
    """A training as the engine tells of it; the finished line is what stays."""
    callback = terminal.TerminalCallback()
    callback.on_begin(task, steps, 0)
    for step in range(1, steps):
        callback.on_step(task, step // 40, 100, step, 0.123)
        callback.on_validation(task, step // 40, 0.5)
    callback.bars.refresh()
    callback.on_end(task)


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_the_time_left_is_never_cut(screen, width):
    out = screen(width)
    train(4000)
    drawn = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue())
    last = [line for line in re.split(r"[\r\n]", drawn) if "left" in line][-1].rstrip()
    assert re.search(r"[-\d]:[-\d]{2}:[-\d]{2} left", last)
    assert len(last) <= width
    assert "…" in last  # the name is cut instead
    assert ("loss 0.123 · step 3999/4000" in last) == (width >= 80)
    assert ("steps/s" in last) == (width == 160)


def test_a_finished_line_is_not_drawn_again_and_messages_stay(screen):
    out = screen(80)
    callback = terminal.TerminalCallback()
    for task in ("signs", "neon"):
        callback.on_begin(task, 1, 0)
        callback.on_step(task, 0, 1, 1, 0.5)
        callback.on_end(task)
        callback.on_message(f"measuring after {task}")
    after = out.getvalue().split("measuring after signs")[1]
    assert "signs" not in after
    assert "\x1b[1A" not in after.split("neon")[0]  # the cursor does not go back over the message
    assert "measuring after neon" in after


def test_counting_images_and_fetching_files_look_alike(screen):
    out = screen(80)
    assert list(terminal.watched(iter("abc"), lambda: 3)) == ["a", "b", "c"]
    assert "left  3 of 3" in out.getvalue()
    with terminal.Fetching() as progress:
        progress("food-101.tar.gz", 5_000_000, 10_000_000)
        progress("food-101.tar.gz", 10_000_000, 10_000_000)
        progress("of unknown size", 1_000_000, None)
    assert "left  10.0 MB" in out.getvalue()
    assert "left  1.0 MB" in out.getvalue()


def test_elsewhere_than_on_a_terminal_nothing_is_drawn(monkeypatch):
    console = Console(file=io.StringIO(), force_terminal=False)
    monkeypatch.setattr(terminal, "console", console)
    train(3)
    assert console.file.getvalue() == ""
