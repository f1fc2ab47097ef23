"""Tests in bfloat16 run only where the processor survives it; that is found out in another process."""

import pytest

from dpw.engine.devices import bfloat16_problem


def needs_bfloat16() -> None:
    """Skip the test on a machine whose bfloat16 kills the process."""
    problem = bfloat16_problem()
    if problem is not None:
        pytest.skip(problem)
