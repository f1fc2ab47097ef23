"""Whatever surrounds the command line: one sentence and the customary exit code, never a traceback."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import dpw as package
from tests.helpers.command_line import dpw

SOURCE = Path(package.__file__).parents[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("after", [0.1, 0.3, 0.6, 1.2])
def test_a_signal_before_the_command_line_is_up(toy, number, after):
    words = [sys.executable, "-m", "dpw", "predict", toy / "clip", "x.png", "--classes", "a,b"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    time.sleep(after)
    process.send_signal(number)
    _, err = process.communicate()
    if after == 0.1 and process.returncode == 1:
        # Python itself was not up yet: it ends so before the first line of ours.
        assert b"dpw/" not in err
        return
    assert process.returncode in (2, 128 + number, -number)
    assert b"Traceback" not in err or after == 0.1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("words", [["-m", "dpw"], ["dpw"]])
def test_a_signal_while_the_package_itself_is_imported(tmp_path, number, words):
    """The first module that the package imports sends the signal."""
    (tmp_path / "pathlib.py").write_text(f"import os\nos.kill(os.getpid(), {int(number)})\n")
    (tmp_path / "dpw").write_text("from dpw.__main__ import main\nmain()\n")
    path = os.pathsep.join([str(tmp_path), str(SOURCE)])
    command = [sys.executable, *words, "--version"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (128 + number, b"")


def test_a_program_that_imports_the_package_keeps_its_own_signals(tmp_path):
    own = "import signal\nimport dpw\nassert signal.getsignal(2) is signal.default_int_handler\n"
    (tmp_path / "theirs.py").write_text(own)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(SOURCE)])}
    for words in (["-m", "theirs"], ["theirs.py", "-m", "dpw"]):
        subprocess.run([sys.executable, *words], cwd=tmp_path, env=environment, check=True)


def test_an_endless_name(capsys, toy):
    code, _, err = dpw(capsys, "learn", toy / "data" / "birds", "--into", "x" * 5000, "--model", toy / "clip")
    assert code == 2
    assert len(err.strip().splitlines()) == 1
    code, _, err = dpw(capsys, "tasks", "y" * 5000)
    assert code == 2
    assert len(err.strip().splitlines()) == 1


def test_loops_of_links(capsys, toy, tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for words in (["tasks", tmp_path / "loop"], ["resume", tmp_path / "loop"]):
        code, _, err = dpw(capsys, *words)
        assert code == 2
        assert "Traceback" not in err
    code, _, err = dpw(capsys, "learn", tmp_path / "loop", "--into", tmp_path / "m", "--model", toy / "clip")
    assert code == 2
    (tmp_path / "birds" / "crow").mkdir(parents=True)
    (tmp_path / "birds" / "crow" / "again").symlink_to(tmp_path / "birds")
    code, _, err = dpw(capsys, "learn", tmp_path / "birds", "--into", tmp_path / "m", "--model", toy / "clip")
    assert code == 2
    assert "link" in err


def test_no_right_to_read_is_one_sentence(capsys, saved, monkeypatch):
    from pathlib import Path

    def refuse(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    code, _, err = dpw(capsys, "tasks", saved[1])
    assert code == 2
    assert "model.json cannot be read (Permission denied)" in err


def test_what_the_system_refuses_elsewhere_is_one_sentence(capsys, saved, monkeypatch):
    def refuse(_):
        raise PermissionError(13, "Permission denied", "/some/where")

    monkeypatch.setattr("dpw.storage.model_json.read_model", refuse)
    code, _, err = dpw(capsys, "tasks", saved[1])
    assert code == 2
    assert err == "dpw: /some/where: Permission denied; mend that and try again\n"


def test_whoever_stops_reading_is_not_answered_with_a_traceback():
    command = f"{sys.executable} -m dpw methods --json | head -c 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=False, env=os.environ)
    assert b"Traceback" not in done.stderr


def test_closed_streams_and_a_full_error_stream_change_no_exit_code(saved):
    command = f"'{sys.executable}' -m dpw tasks"
    for words, code in ((f"{command} '{saved[1]}' <&- >&- 2>&-", 0), (f"{command} x 2>/dev/full", 2)):
        assert subprocess.run(["sh", "-c", words], check=False).returncode == code


def test_an_error_that_nobody_foresaw_is_one_sentence_too(capsys, saved, monkeypatch):
    def fail(*_):
        raise KeyError("frozen_texts")

    monkeypatch.setattr("dpw.storage.model_json.read_model", fail)
    monkeypatch.delenv("DPW_TRACEBACK")
    code, _, err = dpw(capsys, "tasks", saved[1])
    assert code == 2
    assert "a mistake of dpw itself (KeyError: 'frozen_texts'; test_surroundings.py, line" in err
    assert len(err.splitlines()) == 1
    monkeypatch.setenv("DPW_TRACEBACK", "1")
    with pytest.raises(KeyError):
        dpw(capsys, "tasks", saved[1])
