"""Freed memory stays with a process that asks for as much again; what was imported is no garbage."""

import gc
import subprocess
import sys

import pytest

from dpw.engine.memory import KEPT, keep_freed_memory, pass_over_imported

FAULTS = """
import resource, sys
import torch
from dpw.engine.memory import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(60):
    torch.empty(10_000_000).fill_(1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_it_can_be_asked_for_anywhere():
    keep_freed_memory()
    assert KEPT > 32 * 197 * 3072 * 4  # the widest tensor of a batch of ViT-B/16


@pytest.mark.skipif(sys.platform != "linux", reason="the C library of Linux")
def test_memory_that_comes_again_is_not_filled_by_the_system_again():
    pages = {}
    for way in ("keep", "leave"):
        done = subprocess.run([sys.executable, "-c", FAULTS, way], check=True, capture_output=True, text=True)
        pages[way] = int(done.stdout)
    assert pages["keep"] < pages["leave"] / 2


def test_what_is_there_is_passed_over_and_what_comes_later_is_not():
    before = gc.get_freeze_count()
    try:
        pass_over_imported()
        assert gc.get_freeze_count() > before + 1000, "modules and all that is in them"
        later: list = []
        later.append(later)
        del later
        assert gc.collect() >= 1
    finally:
        gc.unfreeze()
