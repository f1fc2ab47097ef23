"""Runs cases of a pretended accelerator in a process of their own: a device stays registered in one."""

import subprocess
import sys
from pathlib import Path


def run_cases(beside: str, name: str, *options: str) -> None:
    """Run a file of cases that lies beside a test, with options of pytest."""
    cases = Path(beside).with_name(name)
    asked = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", *options, str(cases)]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
