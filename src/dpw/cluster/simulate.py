"""How long a grid of runs takes on so many workers: the schedule of `grid.py` with costs instead of work."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class RunCost:
    """Seconds of the parts of one run: of every task, of every test set, and of what only one worker does.

    A run whose tasks need each other is done by one worker, however many there are.
    """

    learn: tuple[float, ...]
    measure: tuple[float, ...]
    apart: bool
    around: float = 0.0

    @property
    def total(self) -> float:
        """Seconds of one worker for the whole run."""
        return sum(self.learn) + sum(self.measure) + self.around


@dataclass(frozen=True)
class Schedule:
    """What a simulation found: seconds until the last run is done, and the share of time workers worked."""

    seconds: float
    busy: float


def simulate(
    runs: Sequence[RunCost], workers: int, *, by_tasks: bool = True, per_part: float = 0.0
) -> Schedule:
    """Simulate the schedule of a grid: parts in the order in which they become ready, the biggest first.

    Args:
        runs: what every run costs.
        workers: how many parts run at once.
        by_tasks: whether tasks and test sets of runs that allow it are spread; otherwise whole runs are.
        per_part: seconds that a part costs besides, such as Ray's own.

    Returns:
        The time until everything is done, and how busy the workers were.

    Example:
        >>> from dpw.cluster.simulate import RunCost, simulate
        >>> run = RunCost((60.0, 60.0), (30.0, 30.0), apart=True)
        >>> simulate([run], 2).seconds, simulate([run], 2, by_tasks=False).seconds
        (90.0, 180.0)
    """
    stages = [_stages(run, by_tasks) for run in runs]
    ready = [(-(seconds + per_part), index, 0) for index, one in enumerate(stages) for seconds in one[0]]
    heapq.heapify(ready)
    left = [[len(stage) for stage in one] for one in stages]
    running: list[tuple[float, int, int]] = []
    now = worked = 0.0
    while ready or running:
        while ready and len(running) < workers:
            negative, index, stage = heapq.heappop(ready)
            heapq.heappush(running, (now - negative, index, stage))
            worked -= negative
        now, index, stage = heapq.heappop(running)
        left[index][stage] -= 1
        if not left[index][stage] and stage + 1 < len(stages[index]):
            for seconds in stages[index][stage + 1]:
                heapq.heappush(ready, (-(seconds + per_part), index, stage + 1))
    return Schedule(now, worked / (now * workers) if now else 1.0)


def _stages(run: RunCost, by_tasks: bool) -> list[tuple[float, ...]]:
    """The parts of a run, stage by stage; the parts of a stage may run at once."""
    if by_tasks and run.apart:
        return [run.learn, run.measure, (run.around,)]
    return [(run.total,)]
