"""A model folder is never stuck: finished tasks are recognised, abandoned ones go on or are dropped."""

import subprocess
import sys

import pytest

from dpw.storage import unfinished
from dpw.storage.checkpoint import TrainingCheckpoint
from dpw.storage.files import commit
from dpw.storage.lock import writing
from tests.helpers.command_line import dpw

SMALL = [
    "--set",
    "prefix_length=2",
    "--set",
    "adapter_rank=4",
    "--set",
    "training.epochs=2",
    "--set",
    "training.batch_size=4",
]


class Killed(BaseException):
    """As good as a kill: nothing tidies up after it."""


@pytest.fixture
def command(toy, tmp_path):
    """A `dpw learn` of birds into a new model, saving its state after every step."""
    start = ["learn", toy / "data" / "birds", "--into", tmp_path / "m", "--model", toy / "clip", *SMALL]
    return [*start, "--checkpoint-seconds", "0"]


def killed_in(monkeypatch, capsys, command, where, after=0):
    """Run a command that dies when it comes to a function for the n-th time."""
    calls = iter(range(10**6))

    def die(*_, **__):
        if next(calls) >= after:
            raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(where, die)
        dpw(capsys, *command)
    capsys.readouterr()


def test_a_finished_task_is_recognised(command, capsys, tmp_path, monkeypatch):
    killed_in(monkeypatch, capsys, command, "dpw.storage.unfinished.remove")
    assert (tmp_path / "m" / "learning" / "progress.json").exists()
    code, out, err = dpw(capsys, *command)
    assert code == 0, err
    assert "already learned" in err
    assert "now knows: birds" in out
    assert not (tmp_path / "m" / "learning").exists()


def test_after_a_finished_task_another_can_be_learned(command, capsys, toy, tmp_path, monkeypatch):
    killed_in(monkeypatch, capsys, command, "dpw.storage.unfinished.remove")
    code, out, err = dpw(capsys, "learn", toy / "data" / "metals", "--into", tmp_path / "m")
    assert code == 0, err
    assert "now knows: birds, metals" in out


def test_an_abandoned_task_goes_on_or_is_dropped(command, capsys, toy, tmp_path, monkeypatch):
    killed_in(monkeypatch, capsys, command, "dpw.cli.terminal.TerminalCallback.on_step", after=2)
    other = [str(word).replace("birds", "metals") if "birds" in str(word) else word for word in command]
    code, _, err = dpw(capsys, *other)
    assert code == 2
    assert "unfinished training of task 'birds'" in err
    assert unfinished.DROP in err
    code, _, err = dpw(capsys, *command, "--seed", "3")
    assert code == 2
    assert unfinished.DROP in err
    code, out, err = dpw(capsys, *other, unfinished.DROP)
    assert code == 0, err
    assert "dropped the unfinished training of birds" in err
    assert "now knows: metals" in out


def test_dropping_nothing_is_refused(command, capsys):
    code, _, err = dpw(capsys, *command, unfinished.DROP)
    assert code == 2
    assert "no unfinished training" in err


def test_changed_images_are_refused(command, capsys, tmp_path, monkeypatch, toy):
    import shutil

    shutil.copytree(toy / "data" / "birds", tmp_path / "birds")
    own = ["learn", tmp_path / "birds", *command[2:]]
    killed_in(monkeypatch, capsys, own, "dpw.cli.terminal.TerminalCallback.on_step", after=2)
    picture = tmp_path / "birds" / "train" / "crow" / "0.png"
    picture.write_bytes((tmp_path / "birds" / "train" / "swan" / "1.png").read_bytes())
    code, _, err = dpw(capsys, *own)
    assert code == 2
    assert "images and labels" in err


def test_a_folder_of_something_else_is_not_made_a_model(command, capsys, tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "holiday.jpg").write_text("precious")
    code, _, err = dpw(capsys, *command)
    assert code == 2
    assert "neither empty nor a dpw model" in err
    assert [path.name for path in (tmp_path / "m").iterdir()] == ["holiday.jpg"]


@pytest.mark.parametrize("name", ["progress.json", "plan.json"])
def test_files_of_others_beside_a_training_are_not_dropped(command, capsys, tmp_path, name):
    theirs = tmp_path / "m" / "learning" / name
    theirs.parent.mkdir(parents=True)
    theirs.write_text("precious")
    code, _, err = dpw(capsys, *command, unfinished.DROP)
    assert code == 2
    assert "was not written by dpw" in err
    unfinished.remove(tmp_path / "m")
    assert theirs.read_text() == "precious"


def test_a_damaged_plan_is_dropped_by_name(command, capsys, toy, tmp_path):
    plain = [*command[:6], "--steps", "1"]
    plan = tmp_path / "m" / "learning" / "plan.json"
    plan.parent.mkdir(parents=True)
    plan.write_text('{"kind": "dpw-plan", cut off')
    code, _, err = dpw(capsys, *plain)
    assert code == 2
    assert "damaged" in err
    code, _, err = dpw(capsys, *plain, unfinished.DROP)
    assert code == 0, err


def test_nothing_is_trained_where_a_link_leads(command, capsys, tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "m" / "learning").symlink_to(tmp_path / "elsewhere")
    code, _, err = dpw(capsys, *command)
    assert code == 2
    assert "is a link" in err


def test_only_the_plan_of_a_finished_task_is_left(toy, capsys, tmp_path, monkeypatch):
    command = ["learn", toy / "data" / "birds", "--into", tmp_path / "m", "--model", toy / "clip"]
    command += ["--set", "prefix_length=2", "--steps", "2", "--checkpoint-seconds", "0"]
    killed_in(monkeypatch, capsys, command, "dpw.storage.unfinished.remove")
    state = TrainingCheckpoint(tmp_path / "m" / "learning", {})
    with writing(state.folder):
        commit(state.path, None, [], list(state.read()["tensors"].values()))
    assert [path.name for path in state.folder.iterdir()] == ["plan.json"]
    code, _, err = dpw(capsys, *command)
    assert code == 0, err
    assert "already learned" in err
    assert not (tmp_path / "m" / "learning").exists()


def test_an_empty_folder_of_a_finished_training_goes(command, capsys, toy, tmp_path):
    assert dpw(capsys, *command)[0] == 0
    (tmp_path / "m" / "learning").mkdir()
    code, _, err = dpw(capsys, *command)
    assert code == 2
    assert "already learned a task 'birds'" in err
    assert not (tmp_path / "m" / "learning").exists()


def test_a_first_model_that_could_not_be_committed_is_no_dead_end(command, capsys, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:

        def full(*_, **__):
            raise OSError(28, "No space left on device", "model.json")

        patch.setattr("dpw.storage.files.write_json", full)
        patch.setattr("dpw.storage.checkpoint.TrainingCheckpoint.write_plan", lambda *_: None)
        patch.setattr("dpw.storage.checkpoint.TrainingCheckpoint.save", lambda *_, **__: None)
        assert dpw(capsys, *command)[0] == 2
    left = [path.name for path in (tmp_path / "m").glob("*.safetensors")]
    assert left, "tensor files without a model"
    code, out, err = dpw(capsys, *command)
    assert code == 0, err
    assert "now knows: birds" in out
    assert not (tmp_path / "m" / ".dpw.lock").exists()


def test_files_of_others_stay_a_reason_to_refuse(command, capsys, tmp_path):
    name = "thesis-0123456789abcdef.safetensors"
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / name).write_text("precious")
    (tmp_path / "m" / ".dpw.lock").write_text(f'{{"pid": 1}}\n"{name}"\n')
    code, _, err = dpw(capsys, *command)
    assert code == 2
    assert f"it holds {name}" in err
    assert (tmp_path / "m" / name).read_text() == "precious"


LAST_MOMENT = """
import os, sys
from pathlib import Path
sys.argv = ["dpw", *sys.argv[1:]]
from dpw.cli import main
remove = Path.{name}
def die(path, *words, **options):
    if str(path).endswith({end!r}):
        os.kill(os.getpid(), 9)
    return remove(path, *words, **options)
Path.{name} = die
main()
"""


@pytest.mark.parametrize(("name", "end"), [("rmdir", "/learning"), ("unlink", "/m/.dpw.lock")])
def test_a_task_is_recognised_also_after_a_kill_in_the_last_moment(command, capsys, tmp_path, name, end):
    """Nothing but the lock file is left to say what was finished; twice, for a second kill is possible."""
    program = [sys.executable, "-c", LAST_MOMENT.format(name=name, end=end)]
    words = [str(word) for word in (*command, "--use-all")]
    for _ in range(2):
        killed = subprocess.run([*program, *words], check=False, capture_output=True)
        assert killed.returncode == -9, killed.stderr
    code, out, err = dpw(capsys, *words)
    assert code == 0, err
    assert "already learned from these images" in err
    assert not (tmp_path / "m" / "learning").exists()
    assert not (tmp_path / "m" / ".dpw.lock").exists()
    code, out, err = dpw(capsys, *words)
    assert code == 2, out
    assert "has already learned a task" in err


def test_a_finished_task_is_recognised_by_all_its_images(command, capsys, monkeypatch):
    killed_in(monkeypatch, capsys, [*command, "--use-all"], "dpw.storage.unfinished.remove")
    code, _, err = dpw(capsys, *command, "--use-all")
    assert code == 0, err
    assert "already learned" in err
