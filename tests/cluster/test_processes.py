"""Processes of this machine make the runs of one process, byte for byte; none is left, none is missed."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from dpw.cluster import processes
from dpw.cluster.grid import GridOptions, PlannedRun, run_grid
from dpw.cluster.jobs import Done, Failed, Job
from dpw.cluster.processes import ProcessWorkers
from tests.helpers.toy_runs import config, outcome, run

SHORT = {"prefix_length": 2, "adapter_rank": 4, "training.iterations": 3, "training.batch_size": 4}
LONG = SHORT | {"training.iterations": 400}


@pytest.fixture(autouse=True)
def _one_thread():
    """As many threads as every worker has."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def begin(toy, folder, **changes):
    """The first part of a run."""
    return Job("begin", folder, config(toy, **changes), folder.parent / "store", folder.parent / "at")


def ended(workers, handle):
    """What a job gave, once it is there."""
    while handle not in workers.wait([handle], 1.0):
        pass
    return workers.result(handle)


def test_tasks_side_by_side_and_a_method_whose_tasks_are_not_give_the_bytes_of_one_process(toy, tmp_path):
    kinds = {"dpw": SHORT, "finetune": {"training.iterations": 3, "training.batch_size": 4}}
    runs = [
        PlannedRun(config(toy, method=name, settings=chosen), tmp_path / "par" / name)
        for name, chosen in kinds.items()
    ]
    with ProcessWorkers(2, threads=1) as workers:
        run_grid(runs, workers, GridOptions(tmp_path / "store"))
        used = {worker.process.pid for worker in workers._workers}
    assert len(used) == 2
    assert os.getpid() not in used
    for name, chosen in kinds.items():
        run(toy, tmp_path / "seq" / name, method=name, settings=chosen)
        assert outcome(tmp_path / "par" / name) == outcome(tmp_path / "seq" / name)


def test_no_process_is_left_whatever_it_does(toy, tmp_path):
    with ProcessWorkers(2, threads=1) as workers:
        assert isinstance(ended(workers, workers.submit(begin(toy, tmp_path / "a"))), Done)
        assert workers.ready
        workers.submit(begin(toy, tmp_path / "b"))
        workers.submit(begin(toy, tmp_path / "c"))
        alive = [worker.process for worker in workers._workers]
        assert len(alive) == 2
        assert all(process.is_alive() for process in alive)
    assert not any(process.is_alive() for process in alive)


def killed_at_work(workers, folder):
    """Kill every worker as soon as a training has left a checkpoint."""
    while not list(folder.glob("store/unfinished/*/progress.json")):
        time.sleep(0.01)
    for worker in list(workers._workers):
        os.kill(worker.process.pid, signal.SIGKILL)


def test_a_task_whose_process_was_killed_is_learned_on_from_its_checkpoint(toy, tmp_path):
    planned = PlannedRun(config(toy, settings=LONG), tmp_path / "par")
    with ProcessWorkers(2, threads=1) as workers:
        killing = threading.Thread(target=killed_at_work, args=(workers, tmp_path))
        killing.start()
        run_grid([planned], workers, GridOptions(tmp_path / "store", checkpoint_seconds=0.0))
        killing.join()
        assert workers._deaths
    run(toy, tmp_path / "seq", settings=LONG)
    assert outcome(tmp_path / "par") == outcome(tmp_path / "seq")


def test_a_job_that_kills_its_process_every_time_is_given_up_in_a_sentence(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "RETRIES", 1)
    with ProcessWorkers(1, threads=1) as workers:
        workers._begun.result()
        handle = workers.submit(begin(toy, tmp_path / "a"))
        for worker in [*workers._workers]:
            worker.process.kill()
        monkeypatch.setattr(processes, "_work", os._exit)  # whoever comes next dies at once
        found = ended(workers, handle)
    assert isinstance(found, Failed)
    assert "died 2 times over the same part" in found.sentence


def test_a_process_that_died_over_nothing_is_replaced(toy, tmp_path):
    with ProcessWorkers(1, threads=1) as workers:
        assert isinstance(ended(workers, workers.submit(begin(toy, tmp_path / "a"))), Done)
        idle = workers._workers[0].process
        idle.kill()
        idle.join()
        assert isinstance(ended(workers, workers.submit(begin(toy, tmp_path / "b"))), Done)
        assert workers._workers[0].process.pid != idle.pid


def test_only_a_job_that_nobody_has_in_hand_can_be_taken_back(toy, tmp_path):
    with ProcessWorkers(1, threads=1) as workers:
        first, second = (workers.submit(begin(toy, tmp_path / name)) for name in "ab")
        assert not workers.cancel(first)
        assert workers.cancel(second)
        assert isinstance(ended(workers, first), Done)
        assert workers.wait([second], 0.05) == []
    assert not (tmp_path / "b").exists()


def test_what_nobody_foresaw_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.delenv("DPW_TRACEBACK", raising=False)
    found = processes._outcome("no job")
    assert isinstance(found, Failed)
    assert "a mistake of dpw itself (AttributeError" in found.sentence


PARENT = """
import sys, time
from dpw.cluster.processes import ProcessWorkers
if __name__ == "__main__":
    workers = ProcessWorkers(2, threads=1)
    workers._begun.result()
    workers._begin()
    print(*(worker.process.pid for worker in workers._workers), flush=True)
    time.sleep(60)
"""


def test_workers_end_with_a_parent_that_was_killed(tmp_path):
    (tmp_path / "parent.py").write_text(PARENT)
    parent = subprocess.Popen([sys.executable, tmp_path / "parent.py"], stdout=subprocess.PIPE, text=True)
    workers = list(map(int, parent.stdout.readline().split()))
    assert len(workers) == 2
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 20
    while any(running(pid) for pid in workers) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(running(pid) for pid in workers)


def running(pid):
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
