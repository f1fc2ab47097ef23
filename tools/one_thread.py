"""A command of dpw in a process of its own with one thread, as tools that fill tables run many of them."""

import os
import subprocess
import sys
from collections.abc import Sequence


def run_dpw(words: Sequence[str]) -> str:
    """Run `dpw WORDS` to its end; gives what went wrong, or an empty text."""
    done = subprocess.run(  # noqa: S603 (our own command)
        [sys.executable, "-m", "dpw", *words],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr if done.returncode else ""
