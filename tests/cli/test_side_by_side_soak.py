"""Killed at any moment, a command whose processes share runs and tasks ends in the bytes of one process."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.helpers.command_line import dpw
from tests.helpers.toy_runs import outcome

pytestmark = pytest.mark.slow
SETTINGS = ["prefix_length=2", "adapter_rank=4", "training.batch_size=4", "training.iterations=120"]


def words(toy, output, *more):
    """Two methods, one of which learns its tasks apart."""
    given = ["run", toy / "toy.yaml", "--model", toy / "clip", "--method", "dpw,dpw-reduced", *more]
    given += [word for one in SETTINGS for word in ("--set", one)]
    return list(map(str, [*given, "--checkpoint-seconds", "0", "--output", output]))


def decided(folder):
    """Everything the runs decide but for the command and the times in their results."""
    runs = sorted(folder.glob("*-seed0"))
    found = {run.name: outcome(run) for run in runs}
    for one in found.values():
        one.pop("results.json")
    return found


@pytest.mark.parametrize("victim", ["all", "parent", "worker"])
def test_no_byte_differs_after_kills(toy, tmp_path, capsys, monkeypatch, victim):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert dpw(capsys, *words(toy, tmp_path / "whole", "--jobs", "1"))[0] == 0
    command = [sys.executable, "-m", "dpw", *words(toy, tmp_path / "killed", "--jobs", "2")]
    moments, kills = random.Random(victim), 0
    for _ in range(25):
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        )
        time.sleep(moments.uniform(0.5, 4.5))
        if process.poll() is None:
            kills += 1
            kill(process.pid, victim)
        said = process.communicate(timeout=120)[1].decode()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, said
    else:
        assert subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode == 0
    assert kills > 0
    assert decided(tmp_path / "killed") == decided(tmp_path / "whole")
    assert not (tmp_path / ".killed-parts").exists()


def kill(parent, victim):
    """Kill a command, the process alone, one of its workers, or all of them."""
    if victim == "all":
        os.killpg(parent, signal.SIGKILL)
    elif victim == "parent":
        os.kill(parent, signal.SIGKILL)
    else:
        found = subprocess.run(["pgrep", "-g", str(parent)], capture_output=True, text=True, check=False)
        children = [pid for pid in map(int, found.stdout.split()) if pid != parent]
        for pid in children[-1:]:
            os.kill(pid, signal.SIGKILL)
