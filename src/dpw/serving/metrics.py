"""Counters and histograms in Prometheus' text format, summed over all processes of a server."""

import mmap
from collections.abc import Sequence
from pathlib import Path

import numpy as np

STATUSES = (200, 400, 401, 404, 405, 408, 413, 422, 429, 499, 500, 503)
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
IMAGES = (1, 2, 4, 8, 16, 32, 64, 128)

COUNTERS = {
    "dpw_images_total": "Images answered.",
    "dpw_model_reloads_total": "New states of the model that were taken over.",
    "dpw_model_refusals_total": "Damaged states of the model that were refused.",
}
GAUGES = {
    "dpw_images_waiting": "Images accepted and not answered yet.",
    "dpw_tasks": "Learned tasks of the model that answers.",
}
HISTOGRAMS: dict[str, tuple[str, Sequence[float]]] = {
    "dpw_request_seconds": ("Time from a whole request to its answer.", SECONDS),
    "dpw_batch_images": ("Images computed together.", IMAGES),
    "dpw_batch_seconds": ("Time to compute a batch.", SECONDS),
}


class Metrics:
    """One row of numbers for each process, in a file that all of them share; without one, in memory.

    Example:
        >>> from dpw.serving.metrics import Metrics
        >>> metrics = Metrics()
        >>> metrics.count("dpw_images_total", 3)
        >>> [line for line in metrics.text().splitlines() if line.startswith("dpw_images_total")]
        ['dpw_images_total 3']
    """

    def __init__(self, path: Path | None = None, process: int = 0, processes: int = 1) -> None:
        """Count for process number `process` of `processes`, in a file that `make_shared` made."""
        self._slots = _slots()
        shape = (processes, len(self._slots))
        if path is None:
            self._table = np.zeros(shape)
        else:
            with path.open("r+b") as file:
                self._table = np.frombuffer(mmap.mmap(file.fileno(), 0), dtype=np.float64).reshape(shape)
        self._row = self._table[process]
        self._row[:] = 0

    def count(self, name: str, by: float = 1) -> None:
        """Add to a counter."""
        self._row[self._slots[name]] += by

    def set(self, name: str, value: float) -> None:
        """Set a gauge, or a counter that is counted elsewhere."""
        self._row[self._slots[name]] = value

    def status(self, code: int) -> None:
        """Count a request by its status; one that is not listed counts as 500."""
        self.count(f"status {code if code in STATUSES else 500}")

    def observe(self, name: str, value: float) -> None:
        """Add a value to a histogram."""
        for bound in HISTOGRAMS[name][1]:
            if value <= bound:
                self.count(f"{name} {bound}")
        self.count(f"{name} count")
        self.count(f"{name} sum", value)

    def text(self) -> str:
        """Everything in Prometheus' text format; gauges of tasks are the largest of all processes."""
        total, largest = self._table.sum(axis=0), self._table.max(axis=0)
        lines = ["# HELP dpw_requests_total Requests by status.", "# TYPE dpw_requests_total counter"]
        for code in STATUSES:
            lines.append(
                f'dpw_requests_total{{status="{code}"}} {_number(total[self._slots[f"status {code}"]])}'
            )
        for name, words in COUNTERS.items():
            lines += _head(name, words, "counter", total[self._slots[name]])
        lines += _head(
            "dpw_images_waiting",
            GAUGES["dpw_images_waiting"],
            "gauge",
            total[self._slots["dpw_images_waiting"]],
        )
        lines += _head("dpw_tasks", GAUGES["dpw_tasks"], "gauge", largest[self._slots["dpw_tasks"]])
        for name, (words, bounds) in HISTOGRAMS.items():
            lines += [f"# HELP {name} {words}", f"# TYPE {name} histogram"]
            for bound in bounds:
                lines.append(
                    f'{name}_bucket{{le="{bound}"}} {_number(total[self._slots[f"{name} {bound}"]])}'
                )
            lines.append(f'{name}_bucket{{le="+Inf"}} {_number(total[self._slots[f"{name} count"]])}')
            lines.append(f"{name}_sum {_number(total[self._slots[f'{name} sum']])}")
            lines.append(f"{name}_count {_number(total[self._slots[f'{name} count']])}")
        return "\n".join(lines) + "\n"


def make_shared(path: Path, processes: int) -> None:
    """Make the file in which several processes count, all at zero."""
    path.write_bytes(bytes(8 * processes * len(_slots())))


def _slots() -> dict[str, int]:
    """Where each number stands in a row."""
    names = [f"status {code}" for code in STATUSES] + [*COUNTERS, *GAUGES]
    for name, (_, bounds) in HISTOGRAMS.items():
        names += [f"{name} {bound}" for bound in bounds] + [f"{name} count", f"{name} sum"]
    return {name: index for index, name in enumerate(names)}


def _head(name: str, words: str, kind: str, value: float) -> list[str]:
    """A metric of one number."""
    return [f"# HELP {name} {words}", f"# TYPE {name} {kind}", f"{name} {_number(value)}"]


def _number(value: float) -> str:
    """Whole numbers without a point."""
    return str(int(value)) if value == int(value) else repr(float(value))
