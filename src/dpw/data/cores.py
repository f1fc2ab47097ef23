"""How many cores there are to use."""

import os


def usable_cores() -> int:
    """The cores that this process may use.

    Example:
        >>> from dpw.data.cores import usable_cores
        >>> usable_cores() >= 1
        True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def own_threads() -> int:
    """As many threads as this process may use of them: OMP_NUM_THREADS where processes share the cores."""
    told = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return min(usable_cores(), int(told)) if told.isdecimal() and int(told) else usable_cores()
