"""Many runs in parts: nothing is learned twice, a failure leaves the others alone, and all are byte-equal."""

import json
import os
import shutil

import pytest

from dpw.cluster.grid import Grid, GridOptions, PlannedRun, run_grid, time_left
from dpw.cluster.jobs import Failed, carry_out
from dpw.errors import InputError, Interrupted, StorageError
from tests.helpers.toy_runs import config, outcome, run

QUICK = {"method": "rail", "settings": {"width": 40}}


class Inline:
    """Workers that do a job in this process, the newest first."""

    slots = 2

    def __init__(self) -> None:
        self.jobs = []

    def submit(self, job):
        self.jobs.append(job)
        return len(self.jobs) - 1

    def wait(self, handles, seconds):
        return [max(handles)]

    def result(self, handle):
        return carry_out(self.jobs[handle])

    def cancel(self, handle):
        return False

    def did(self, kind):
        return [job.part for job in self.jobs if job.kind == kind]


def planned(toy, folder, **changes):
    return PlannedRun(config(toy, **QUICK, **changes), folder)


def test_two_orders_share_their_tasks_and_end_as_alone(toy, tmp_path):
    workers, orders = Inline(), {"a": ["birds", "signs"], "b": ["signs", "birds"]}
    runs = [planned(toy, tmp_path / name, order=order) for name, order in orders.items()]
    found = run_grid(runs, workers, GridOptions(tmp_path / "store", tmp_path / "status.json"))
    assert sorted(workers.did("learn")) == ["birds", "signs"], "each once for both runs"
    assert len(workers.did("measure")) == 4
    for name, order in orders.items():
        run(toy, tmp_path / f"{name}-alone", order=order, **QUICK)
        assert outcome(tmp_path / name) == outcome(tmp_path / f"{name}-alone")
    assert [one["tasks"] for one in found] == list(orders.values())
    assert not (tmp_path / "status.json").exists() and not (tmp_path / "store/at").exists()


def test_the_biggest_task_comes_first(toy, tmp_path):
    workers = Inline()
    run_grid([planned(toy, tmp_path / "run")], workers, GridOptions(tmp_path / "store"))
    assert workers.did("learn")[0] == "birds", "it has three classes, the others two"


def test_methods_that_mix_their_tasks_are_done_whole(toy, tmp_path):
    workers, settings = Inline(), {"training.iterations": 2, "training.batch_size": 4}
    wanted = config(toy, method="finetune", settings=settings, order=["signs"])
    run_grid([PlannedRun(wanted, tmp_path / "run")], workers, GridOptions(tmp_path / "store"))
    assert [job.kind for job in workers.jobs] == ["begin", "finish"]


def test_a_bad_image_is_one_sentence_and_the_other_run_is_done(toy, tmp_path):
    world = tmp_path / "world"
    shutil.copytree(toy, world)
    picture = world / "data" / "signs" / "train" / "stop" / "3.png"
    picture.write_bytes(picture.read_bytes()[:60])
    seen = []
    options = GridOptions(tmp_path / "store", tmp_path / "status.json", on_change=seen.append)
    runs = [planned(world, tmp_path / "bad"), planned(toy, tmp_path / "good", order=["signs"])]
    with pytest.raises(InputError, match=r"signs/train/stop/3\.png.*1 of 2 runs failed") as raised:
        run_grid(runs, Inline(), options)
    assert "\n" not in str(raised.value)
    assert (tmp_path / "good" / "results.json").exists()
    assert {one["stage"] for one in seen[-1]["runs"]} == {"failed", "finished"}


def test_a_part_that_fails_ends_every_run_that_needs_it(toy, tmp_path):
    class Failing(Inline):
        def result(self, handle):
            job = self.jobs[handle]
            return Failed("no luck") if job.part == "birds" else super().result(handle)

    orders = [["birds", "signs"], ["signs", "birds"], ["signs"]]
    runs = [planned(toy, tmp_path / str(n), order=order) for n, order in enumerate(orders)]
    with pytest.raises(InputError, match="no luck"):
        run_grid(runs, Failing(), GridOptions(tmp_path / "store"))
    assert [one.stage for one in runs] == ["failed", "failed", "finished"]


def test_a_stop_keeps_what_was_learned_and_the_same_call_goes_on(toy, tmp_path):
    first, status = Inline(), tmp_path / "status.json"
    options = GridOptions(tmp_path / "store", status, should_stop=lambda: len(first.jobs) > 2)
    with pytest.raises(Interrupted):
        run_grid([planned(toy, tmp_path / "run")], first, options)
    assert json.loads(status.read_text())["runs"][0]["stage"] == "stopped"
    done = len(list((tmp_path / "store" / "learned").iterdir()))
    again = Inline()
    run_grid([planned(toy, tmp_path / "run")], again, GridOptions(tmp_path / "store", status))
    assert done + len(again.did("learn")) == 3


def test_a_stop_takes_back_what_nobody_has_begun(toy, tmp_path):
    class Waiting(Inline):
        """A cluster that is busy with the work of others."""

        def wait(self, handles, seconds):
            return []

        def cancel(self, handle):
            return True

    workers = Waiting()
    options = GridOptions(tmp_path / "store", should_stop=lambda: True)
    runs = [planned(toy, tmp_path / str(number)) for number in range(2)]
    with pytest.raises(Interrupted, match="stopped before"):
        run_grid(runs, workers, options)
    assert [run.stage for run in runs] == ["stopped", "stopped"] and len(workers.jobs) == 2


def test_signs_of_life_that_nobody_renews_are_removed(toy, tmp_path):
    old, fresh = (tmp_path / "store" / "at" / name for name in ("old", "fresh"))
    for folder in (old, fresh):
        folder.mkdir(parents=True)
    os.utime(old, (0, 0))
    run_grid([planned(toy, tmp_path / "run", order=["signs"])], Inline(), GridOptions(tmp_path / "store"))
    assert fresh.exists() and not old.exists()


@pytest.mark.parametrize("place", ["store", "status"])
def test_a_folder_that_cannot_be_written_is_one_sentence(toy, tmp_path, place):
    (tmp_path / "file").write_text("no folder")
    places = {"store": tmp_path / "store", "status": tmp_path / "runs" / "status.json"}
    places[place] = tmp_path / "file" / "below"
    options = GridOptions(places["store"], places["status"] / "status.json")
    with pytest.raises(StorageError, match=r"cannot write .*file.*choose another") as raised:
        run_grid([planned(toy, tmp_path / "run")], Inline(), options)
    assert "\n" not in str(raised.value)


def test_a_snapshot_says_what_is_done_and_what_is_left(toy, tmp_path):
    seen = []
    options = GridOptions(tmp_path / "store", on_change=seen.append)
    Grid([planned(toy, tmp_path / "run")], Inline(), options).go()
    learning = [one for one in seen if one["runs"][0]["stage"] == "learning"]
    assert learning[-1]["runs"][0]["parts"]["learning"][1] == 3
    assert {job["kind"] for one in learning for job in one["jobs"]} == {"learn"}
    assert seen[-1]["runs"][0]["parts"] == {"learning": [3, 3], "measuring": [3, 3]}


def test_time_left_is_unknown_before_anything_was_done():
    assert time_left([], [("learn", 10)], 2) is None
    assert time_left([("learn", 10, 5.0)], [], 2) == 0
