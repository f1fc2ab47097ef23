"""How many cores there are to use."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

THREADS = "OMP_NUM_THREADS"


def usable_cores() -> int:
    """The cores that this process may use.

    Example:
        >>> from dpw.data.cores import usable_cores
        >>> usable_cores() >= 1
        True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def limit_threads(count: int) -> None:
    """Say how many threads this process may use, because others share the cores; torch is told apart."""
    os.environ[THREADS] = str(count)


@contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """Meanwhile say so to processes that are begun."""
    before = os.environ.get(THREADS)
    limit_threads(count)
    try:
        yield
    finally:
        if before is None:
            del os.environ[THREADS]
        else:
            os.environ[THREADS] = before


def own_threads() -> int:
    """As many threads as this process may use of them: OMP_NUM_THREADS where processes share the cores."""
    told = os.environ.get(THREADS, "").split(",")[0]
    return min(usable_cores(), int(told)) if told.isdecimal() and int(told) else usable_cores()
