"""Ways of doing the same thing measured in turn, and the peak memory of one way in a process of its own."""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

CPUINFO = Path("/proc/cpuinfo")
Way = Callable[[], object]
BUDGET = 240.0  # CPU seconds for one figure


@dataclass
class Figure:
    """One ratio: how many times the cost of the second way the first one has."""

    shape: str
    what: str
    ratio: float
    lowest: float
    highest: float
    repeats: int
    target: str = ""
    reached: bool | None = None

    def line(self) -> str:
        """As a row of a table."""
        verdict = {None: "", True: "yes", False: "no"}[self.reached]
        spread = f"{_short(self.lowest)}–{_short(self.highest)}" if self.repeats > 1 else "once"
        ratio = _short(self.ratio)
        return f"| {self.shape} | {self.what} | {ratio} | {spread} | {self.target} | {verdict} |"

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def _short(ratio: float) -> str:
    """Two decimals, or two digits of a very small ratio."""
    return f"{ratio:.2f}" if ratio >= 0.05 else f"{ratio:.2g}"


def seconds(way: Way) -> float:
    """CPU seconds of one call; with one thread that is the time it would take on an idle machine."""
    start = time.process_time()
    way()
    return time.process_time() - start


def in_turn(ways: dict[str, Way], repeats: int) -> dict[str, list[float]]:
    """CPU seconds of every way, measured one after the other again and again.

    A first round warms up and is not counted; then there is one round at least, and no new one once `BUDGET`
    is used up.
    """
    used = sum(seconds(way) for way in ways.values())
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            found[name].append(seconds(way))
            used += found[name][-1]
        if used > BUDGET:
            break
    return found


def figure(
    shape: str,
    what: str,
    slow: list[float],
    fast: list[float],
    least: float | None = None,
    most: float | None = None,
    factor: float = 1.0,
) -> Figure:
    """The ratio of two ways measured in turn, judged if there is a target; `factor` multiplies it."""
    ratios = [factor * a / b for a, b in zip(slow, fast, strict=True)]
    middle = statistics.median(ratios)
    target, reached = "", None
    if least is not None:
        target, reached = f"≥ {least:g}", middle >= least
    if most is not None:
        target, reached = f"≤ {most:g}", middle <= most
    return Figure(shape, what, middle, min(ratios), max(ratios), len(ratios), target, reached)


def measured_on() -> str:
    """Processor, cores, threads and torch: what every figure belongs to."""
    name = platform.processor() or platform.machine()
    with suppress(OSError):  # Linux alone says it here
        described = dict(line.split(":", 1) for line in CPUINFO.read_text().splitlines() if ":" in line)
        of = {key.strip(): value.strip() for key, value in described.items()}
        kind = [f"{key.removeprefix('cpu ')} {of[key]}" for key in ("cpu family", "model") if key in of]
        name = of.get("model name", name) + (f" ({', '.join(kind)})" if kind else "")
    cores, threads = os.cpu_count(), torch.get_num_threads()
    return f"Measured on {name}, {cores} cores, {threads} threads, torch {torch.__version__}"


def peak_memory(call: str, *arguments: object) -> int:
    """Peak bytes of a fresh process that runs `benchmarks.peaks.<call>(*arguments)`.

    The C library is told to give memory back at once, so that the peak is of what lives, not of what waits.
    """
    code = (
        "import json, sys; from benchmarks import peaks\n"
        "getattr(peaks, sys.argv[1])(*json.loads(sys.argv[2]))\n"
        "print(peaks.peak())"
    )
    command = [sys.executable, "-c", code, call, json.dumps(arguments)]
    root = Path(__file__).parent.parent
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": str(2**16)}
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root, env=environment)  # noqa: S603
    return int(done.stdout)
