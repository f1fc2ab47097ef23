"""Cases of a pretended accelerator, run in a process of their own: a device stays registered in one."""

import subprocess
import sys
from pathlib import Path

CASES = Path(__file__).with_name("devices_pretended_cases.py")


def test_learning_files_and_reads_on_a_pretended_accelerator():
    asked = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", str(CASES)]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
