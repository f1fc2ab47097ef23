"""Twin runs: one straight through, one killed again and again, must end in the same bytes."""

import os
import random
import shutil
import signal
import time
import traceback
from pathlib import Path

import pytest

from dpw.engine.callbacks import TrainingCallback
from dpw.errors import DamagedFileError, DpwError, InputError, Interrupted, StorageError
from dpw.runs.config import RunOptions
from dpw.runs.run import resume_run, start_run
from dpw.storage import files
from tests.helpers.toy_runs import StopAfter, config, outcome, run

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a forked process")


@pytest.fixture(scope="module")
def straight(toy, tmp_path_factory):
    """The run that nobody disturbs."""
    output = tmp_path_factory.mktemp("straight") / "run"
    began = time.monotonic()
    run(toy, output)
    return outcome(output), time.monotonic() - began


def in_child(work) -> int:
    """Run something in a forked process and give the child's id."""
    child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def die_in_write(number: int, when: str) -> None:
    """Make this process kill itself at its n-th write: before the rename, or half-way through the bytes."""
    calls = iter(range(10**6))
    original = files.os.fsync

    def fsync(descriptor: int) -> None:
        if next(calls) == number:
            if when == "half" and Path(f"/proc/self/fd/{descriptor}").readlink().suffix == ".tmp":
                os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        original(descriptor)

    files.os.fsync = fsync


def one_life(toy, output, draw: random.Random, seconds: float) -> bool:
    """Go on with the run and kill it at a random moment or in a random write; whether it was killed."""
    when = draw.choice(("later", "rename", "half"))
    number = draw.randrange(12)

    def work() -> None:
        if when != "later":
            die_in_write(number, when)
        start_run(config(toy), output, RunOptions(checkpoint_seconds=0))

    child = in_child(work)
    if when == "later":
        time.sleep(draw.uniform(0, seconds / 3))
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the run failed by itself"
    return os.WIFSIGNALED(status)


def check_twins(toy, tmp_path, straight, kills: int, seed: int) -> None:
    """Kill as often as asked, in as many twins as that takes; every twin must end like the straight run."""
    expected, seconds = straight
    draw, done, twin = random.Random(seed), 0, 0
    while done < kills:
        output = tmp_path / f"twin{twin}"
        twin += 1
        while done < kills and one_life(toy, output, draw, seconds):
            done += 1
        run(toy, output)
        assert outcome(output) == expected
        assert not list(output.rglob("*.tmp")), "no half-written file is left"


def test_twenty_kills_change_no_byte(toy, tmp_path, straight):
    check_twins(toy, tmp_path, straight, kills=20, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_two_hundred_kills_change_no_byte(toy, tmp_path, straight, seed):
    check_twins(toy, tmp_path, straight, kills=20, seed=100 + seed)


@pytest.mark.parametrize("step", [1, 5, 9, 14])
def test_a_polite_stop_saves_and_goes_on(toy, tmp_path, straight, step):
    with pytest.raises(Interrupted, match=r"stopped at step \d+ of"):
        run(toy, tmp_path / "run", StopAfter(step).options())
    resume_run(tmp_path / "run", RunOptions())
    assert outcome(tmp_path / "run") == straight[0]


def test_a_stop_before_measuring_goes_on_with_the_measurement(toy, tmp_path, straight):
    with pytest.raises(Interrupted, match="before measuring"):
        run(toy, tmp_path / "run", StopAfter(0).options())
    resume_run(tmp_path / "run", RunOptions())
    assert outcome(tmp_path / "run") == straight[0]


def test_a_finished_run_only_gives_its_results(toy, tmp_path, straight):
    first = run(toy, tmp_path / "run")
    before = outcome(tmp_path / "run")
    assert resume_run(tmp_path / "run", RunOptions())["metrics"] == first["metrics"]
    assert outcome(tmp_path / "run") == before


def stopped_run(toy, folder):
    """A run that was stopped in the middle of its second task."""
    with pytest.raises(Interrupted):
        run(toy, folder, StopAfter(15).options())
    assert (folder / "progress" / "progress.json").exists()
    return folder


@pytest.mark.parametrize("change", [{"seed": 1}, {"shots": 2}, {"settings": {"prefix_length": 4}}])
def test_going_on_with_other_settings_is_refused(toy, tmp_path, change):
    folder = stopped_run(toy, tmp_path / "run")
    with pytest.raises(InputError, match=next(iter(change))):
        run(toy, folder, **change)


def test_a_changed_class_list_is_refused(toy, tmp_path):
    world = tmp_path / "world"
    shutil.copytree(toy, world)
    folder = stopped_run(world, tmp_path / "run")
    for split in ("train", "val", "test"):
        (world / "data" / "metals" / split / "gold").rename(world / "data" / "metals" / split / "silver")
    with pytest.raises(InputError, match="class names"):
        resume_run(folder, RunOptions())


def test_a_changed_backbone_is_refused(toy, tmp_path):
    from tests.helpers.tiny_clip import save_tiny

    world = tmp_path / "world"
    shutil.copytree(toy, world)
    folder = stopped_run(world, tmp_path / "run")
    save_tiny(world / "clip", seed=5)
    with pytest.raises(InputError, match="another CLIP"):
        resume_run(folder, RunOptions())


def damaged(folder, path, change) -> None:
    """Apply a change to the bytes of a file and expect a sentence that names it."""
    original = path.read_bytes()
    path.write_bytes(change(original))
    with pytest.raises(DamagedFileError) as caught:
        resume_run(folder, RunOptions())
    assert path.name in str(caught.value) or str(path.parent) in str(caught.value)
    assert "\n" not in str(caught.value)
    path.write_bytes(original)


def test_damage_anywhere_is_refused(toy, tmp_path, straight):
    folder = stopped_run(toy, tmp_path / "run")
    files = [*folder.glob("progress/*"), *folder.glob("model/*"), folder / "run.json"]
    files += list(folder.glob("rows/*.json"))
    assert len(files) > 6
    for path in files:
        middle = path.stat().st_size // 2
        damaged(folder, path, lambda b, m=middle: b[:m] + bytes([b[m] ^ 1]) + b[m + 1 :])
        damaged(folder, path, lambda b, m=middle: b[:m])
        damaged(folder, path, lambda _: b"")
    damaged(folder, folder / "metrics.jsonl", lambda b: b[:10])
    resume_run(folder, RunOptions())
    assert outcome(folder) == straight[0], "restored files go on as if nothing had happened"


def test_a_folder_that_is_not_a_run(toy, tmp_path):
    with pytest.raises(DamagedFileError, match="not a dpw run"):
        resume_run(tmp_path, RunOptions())
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(InputError, match="not an empty folder"):
        run(toy, tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "precious"


def test_a_full_disk_loses_nothing(toy, tmp_path, straight, monkeypatch):
    calls = iter(range(10**6))
    original = files.os.fsync

    def full(descriptor: int) -> None:
        if next(calls) == 12:
            raise OSError(28, "No space left on device")
        original(descriptor)

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(StorageError, match="disk is full"):
        run(toy, tmp_path / "run")
    monkeypatch.undo()
    run(toy, tmp_path / "run")
    assert outcome(tmp_path / "run") == straight[0]


def test_a_second_writer_is_refused_and_the_first_is_not_disturbed(toy, tmp_path, straight):
    folder, refused = tmp_path / "run", []

    class Intruder(TrainingCallback):
        def on_step(self, task: str, epoch: int, epochs: int, step: int, loss: float) -> None:
            if not refused:
                child = in_child(lambda: run(toy, folder))
                refused.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    run(toy, folder, RunOptions(checkpoint_seconds=0, callback=Intruder()))
    assert refused == [1]
    assert outcome(folder) == straight[0]


def test_files_of_others_below_a_run_stay(toy, tmp_path, straight):
    folder = stopped_run(toy, tmp_path / "run")
    others = [folder / ".mine.tmp", folder / "model" / "my-0123456789abcdef.safetensors"]
    others += [folder / "progress" / ".x.tmp", folder / "notes" / ".deep.tmp"]
    for path in others:
        path.parent.mkdir(exist_ok=True)
        path.write_text("precious")
    resume_run(folder, RunOptions())
    assert [path.read_text() for path in others] == ["precious"] * 4


def test_a_folder_that_is_refused_keeps_every_file(toy, tmp_path):
    (tmp_path / ".mine.tmp").write_text("precious")
    with pytest.raises(InputError, match="not an empty folder"):
        run(toy, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".mine.tmp"]


def repainted(world):
    """Another picture of the same name."""
    picture = world / "data" / "metals" / "train" / "gold" / "0.png"
    picture.write_bytes((world / "data" / "metals" / "train" / "rust" / "1.png").read_bytes())


def relabelled(world):
    """Two pictures that change places between classes."""
    one, other = (world / "data" / "signs" / "train" / name / "0.png" for name in ("stop", "yield"))
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def rewritten(old, new):
    """A changed YAML file."""

    def change(world):
        text = (world / "toy.yaml").read_text()
        (world / "toy.yaml").write_text(text.replace(old, new))

    return change


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (repainted, "task 'metals'"),
        (relabelled, "task 'signs'"),
        (rewritten("  - folder: data/signs\n", ""), "began with the tasks birds, metals, signs"),
        (rewritten("tasks:\n", "tasks:\n  - folder: data/metals\n    name: more\n"), "now has more"),
        (rewritten("task-incremental", "class-incremental"), "setting = 'task-incremental'"),
        (rewritten("name: toy\n", "name: toy\ntemplates: ['a bad photo of a {}.']\n"), "templates"),
    ],
    ids=["image", "labels", "fewer tasks", "more tasks", "setting", "templates"],
)
def test_data_that_changed_between_is_refused(toy, tmp_path, change, sentence):
    world = tmp_path / "world"
    shutil.copytree(toy, world)
    folder = stopped_run(world, tmp_path / "run")
    change(world)
    with pytest.raises(InputError, match=sentence):
        resume_run(folder, RunOptions())


def test_relative_paths_are_those_of_the_folder_they_were_written_in(toy, tmp_path, monkeypatch, straight):
    monkeypatch.chdir(toy)
    with pytest.raises(Interrupted):
        run(toy, tmp_path / "run", StopAfter(15).options(), benchmark="toy.yaml", model="clip")
    monkeypatch.chdir(tmp_path)
    resume_run(tmp_path / "run", RunOptions())
    assert outcome(tmp_path / "run")["metrics.jsonl"] == straight[0]["metrics.jsonl"]


def test_the_number_of_threads_is_kept(toy, tmp_path, monkeypatch):
    import torch

    folder = stopped_run(toy, tmp_path / "run")
    content = files.read_json(folder / "run.json", "run")
    assert content["threads"] == 1
    files.write_json(folder / "run.json", content | {"threads": 2})
    seen = []
    go = "dpw.runs.benchmark_run.BenchmarkRun.go"
    monkeypatch.setattr(go, lambda _: seen.append(torch.get_num_threads()))
    resume_run(folder, RunOptions())
    assert (seen, torch.get_num_threads()) == ([2], 1)


def test_an_unreadable_image_of_the_last_task_is_found_before_the_first_step(toy, tmp_path):
    world = tmp_path / "world"
    shutil.copytree(toy, world)
    picture = world / "data" / "signs" / "train" / "stop" / "3.png"
    picture.write_bytes(picture.read_bytes()[:60])
    with pytest.raises(InputError, match=r"signs/train/stop/3\.png"):
        run(world, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_reference_data_that_is_not_there_is_found_before_the_first_step(toy, tmp_path):
    settings = {"training.iterations": 1, "reference_images": str(tmp_path / "nowhere")}
    with pytest.raises(InputError, match="nowhere, which is no folder"):
        run(toy, tmp_path / "run", method="zscl", settings=settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("method", ["zscl", "gift"])
def test_reference_data_that_no_setting_names_is_asked_for_before_the_first_step(toy, tmp_path, method):
    with pytest.raises(InputError, match=f"'{method}' needs images"):
        run(toy, tmp_path / "run", method=method, settings={"training.iterations": 1})
    assert not (tmp_path / "run").exists()


def test_a_corrected_command_may_reuse_the_folder_of_a_run_that_learned_nothing(toy, tmp_path, straight):
    with pytest.raises(Interrupted):
        run(toy, tmp_path / "run", StopAfter(0).options(), method="zero-shot", settings={})
    assert (tmp_path / "run" / "run.json").exists()
    run(toy, tmp_path / "run")
    assert outcome(tmp_path / "run") == straight[0]


DAMAGES = [
    lambda b: bytes([0xFF, 0xFE]) + b,
    lambda b: b.replace(b'"seconds": ', b'"seconds": Infinity, "x": '),
    lambda b: b"[" * 100_000 + b"\n" + b,
    lambda _: b"\x00" * 100,
]


@pytest.mark.parametrize("change", DAMAGES)
def test_damaged_timings_stop_neither_resume_nor_report(toy, tmp_path, straight, change):
    from dpw.report import write_report

    folder = stopped_run(toy, tmp_path / "run")
    timings = folder / "timings.jsonl"
    timings.write_bytes(change(timings.read_bytes()))
    resume_run(folder, RunOptions())
    assert outcome(folder) == straight[0]
    timings.write_bytes(change(timings.read_bytes()))
    write_report([folder], tmp_path / "report.html")


def test_a_flip_in_the_log_is_noticed_and_one_in_the_table_is_mended(toy, tmp_path, straight):
    run(toy, tmp_path / "run")
    table, log = tmp_path / "run" / "accuracy.csv", tmp_path / "run" / "metrics.jsonl"
    good = log.read_bytes()
    table.write_bytes(table.read_bytes().replace(b"birds", b"words"))
    resume_run(tmp_path / "run", RunOptions())
    assert outcome(tmp_path / "run") == straight[0]
    log.write_bytes(good.replace(b"birds", b"words", 1))
    with pytest.raises(DamagedFileError, match=r"metrics\.jsonl was changed"):
        resume_run(tmp_path / "run", RunOptions())


def test_a_flip_in_the_log_of_a_stopped_run_is_noticed(toy, tmp_path):
    folder = stopped_run(toy, tmp_path / "run")
    log = folder / "metrics.jsonl"
    log.write_bytes(log.read_bytes().replace(b"birds", b"words", 1))
    with pytest.raises(DamagedFileError, match=r"metrics\.jsonl was changed"):
        resume_run(folder, RunOptions())


@pytest.mark.parametrize("name", ["metrics.jsonl", "timings.jsonl", "rows", "progress"])
def test_nothing_is_written_where_a_link_in_a_run_leads(toy, tmp_path, name):
    folder = stopped_run(toy, tmp_path / "run")
    elsewhere = tmp_path / "elsewhere"
    (folder / name).rename(elsewhere)
    (folder / name).symlink_to(elsewhere)
    before = [path.read_bytes() for path in sorted([elsewhere, *elsewhere.rglob("*")]) if path.is_file()]
    with pytest.raises(DpwError, match="link"):
        resume_run(folder, RunOptions())
    assert before == [
        path.read_bytes() for path in sorted([elsewhere, *elsewhere.rglob("*")]) if path.is_file()
    ]


@pytest.mark.parametrize("name", ["metrics.jsonl", "timings.jsonl"])
def test_a_pipe_in_place_of_a_log_is_refused_at_once(toy, tmp_path, name):
    folder = stopped_run(toy, tmp_path / "run")
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(DamagedFileError, match="no plain file"):
        resume_run(folder, RunOptions())


def test_locks_that_a_kill_left_inside_a_run_are_gone_when_it_is_resumed(dpw_run, tmp_path):
    shutil.copytree(dpw_run, tmp_path / "r")
    before = sorted(path.name for path in (tmp_path / "r").rglob("*"))
    for part in ("model", "progress"):
        (tmp_path / "r" / part / ".dpw.lock").touch()
    resume_run(tmp_path / "r")
    assert sorted(path.name for path in (tmp_path / "r").rglob("*")) == before
