"""One writer at a time, told by name; a killed writer blocks nobody, and only what it wrote is removed."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from dpw.errors import InputError, StorageError
from dpw.storage import files, lock

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks processes")

HOLD = """
import sys, time
from pathlib import Path
from dpw.storage import files, lock
with lock.writing(Path(sys.argv[1])) as held:
    files.write_bytes(Path(sys.argv[1]) / "x.json", b"{}")
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of a folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, tmp_path / "m"], stdout=subprocess.PIPE)
    with process:
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_a_second_writer_is_refused_and_told_who_writes(tmp_path, holder):
    with pytest.raises(InputError, match=f"process {holder.pid} on .* since 2"), lock.writing(tmp_path / "m"):
        pytest.fail("two writers")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_writer_blocks_nobody(tmp_path, holder, number):
    holder.send_signal(number)
    holder.wait()
    assert (tmp_path / "m" / lock.FILE).exists()
    with lock.writing(tmp_path / "m"):
        pass
    assert [path.name for path in (tmp_path / "m").iterdir()] == ["x.json"]


@pytest.mark.parametrize("without", [None, "flock"])
def test_without_locks_of_the_system_the_file_is_the_lock(tmp_path, monkeypatch, without):
    if without is None:
        monkeypatch.setattr(lock, "fcntl", None)
    else:
        monkeypatch.setattr(lock.fcntl, "flock", lambda *_: (_ for _ in ()).throw(OSError(37, "no locks")))
    path = tmp_path / lock.FILE
    path.write_text(json.dumps({"pid": 1, "host": "elsewhere", "since": "2026-01-01"}) + "\n")
    with (
        pytest.raises(InputError, match=r"process 1 on elsewhere since 2026-01-01.*delete"),
        lock.writing(tmp_path),
    ):
        pytest.fail("the holder may be alive")
    path.write_text(json.dumps({"pid": dead_process(), "host": lock.socket.gethostname()}) + "\n")
    with lock.writing(tmp_path), pytest.raises(InputError, match="is being written"):
        lock.FolderLock(tmp_path)
    assert not list(tmp_path.iterdir())


def dead_process() -> int:
    """The number of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def test_the_holder_may_ask_again_and_another_thread_may_not(tmp_path):
    errors = []

    def intrude():
        try:
            with lock.writing(tmp_path):
                pass
        except InputError as error:
            errors.append(error)

    with lock.writing(tmp_path), lock.writing(tmp_path):
        thread = threading.Thread(target=intrude)
        thread.start()
        thread.join()
    assert len(errors) == 1
    assert not list(tmp_path.iterdir())


def test_a_forked_child_does_not_keep_the_lock(tmp_path):
    with lock.writing(tmp_path):
        child = os.fork()
        if not child:
            time.sleep(30)
            os._exit(0)
    try:
        with lock.writing(tmp_path):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_folder_made_for_nothing_is_gone_again(tmp_path):
    with lock.writing(tmp_path / "a" / "b"):
        pass
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(lock.os, "open", refuse)
    with pytest.raises(StorageError, match=r"cannot write .*Permission denied"), lock.writing(tmp_path):
        pytest.fail("it cannot be written")


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / lock.FILE).symlink_to(precious)
    with pytest.raises(StorageError), lock.writing(tmp_path / "m"):
        pytest.fail("a link")
    assert precious.read_text() == "precious"


def test_only_what_a_killed_writer_noted_is_removed(tmp_path):
    mine = ["notes-0123456789abcdef.safetensors", ".mine.tmp", ".model.json.12.tmp", ".a.dpw-01234567.tmp"]
    for name in mine:
        (tmp_path / name).write_text("precious")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".b.dpw-01234567.tmp").write_text("precious")
    hashed = hashlib.sha256(b"left over").hexdigest()[:16]
    noted = [f"x-{hashed}.safetensors", ".x.dpw-89abcdef.tmp"]
    for name in noted:
        (tmp_path / name).write_text("left over")
    mine.append("claimed-fedcba9876543210.safetensors")  # the journal names it, but dpw never wrote it
    (tmp_path / mine[-1]).write_text("precious")
    outside = tmp_path.parent / ".out.dpw-01234567.tmp"
    outside.write_text("precious")
    lines = [{"pid": 1}, *noted, mine[-1], "../.out.dpw-01234567.tmp", "notes.txt", 7, str(outside)]
    (tmp_path / lock.FILE).write_text("".join(json.dumps(line) + "\n" for line in lines) + '"cut o')
    with lock.writing(tmp_path):
        files.commit(tmp_path / "x.json", {"format": 1}, [], [])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*mine, "sub", "x.json"])
    assert outside.read_text() == (tmp_path / "sub" / ".b.dpw-01234567.tmp").read_text() == "precious"


def test_a_journal_removes_nothing_that_lies_behind_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    theirs = tmp_path / "elsewhere" / ".x.dpw-89abcdef.tmp"
    theirs.write_text("somebody writes this just now")
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "sub").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "m" / lock.FILE).write_text('"sub/.x.dpw-89abcdef.tmp"\n')
    with lock.writing(tmp_path / "m"):
        assert theirs.exists()


def test_a_pipe_in_place_of_the_lock_is_one_sentence(tmp_path):
    os.mkfifo(tmp_path / lock.FILE)
    with pytest.raises(StorageError, match="is a pipe or a device"), lock.writing(tmp_path):
        pytest.fail("a pipe")


def test_a_holder_who_has_not_said_his_name_yet_gets_a_moment(tmp_path):
    fcntl = pytest.importorskip("fcntl")
    with (tmp_path / ".dpw.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        later = threading.Timer(0.05, lambda: (file.write('{"pid": 77, "host": "attic"}\n'), file.flush()))
        later.start()
        with pytest.raises(lock.FolderBusyError, match="process 77 on attic"), lock.writing(tmp_path):
            pass
        later.join()


def test_a_folder_that_cannot_be_made_is_known_before_it_is_needed(tmp_path):
    lock.refuse_unwritable(tmp_path / "new" / "store")
    assert not (tmp_path / "new").exists()
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot write"):
        lock.refuse_unwritable(tmp_path / "file" / "store")


def test_what_is_left_over_stays_noted_until_it_is_gone(tmp_path, monkeypatch):
    content = b"left over"
    left = tmp_path / f"x-{hashlib.sha256(content).hexdigest()[:16]}.safetensors"
    left.write_bytes(content)
    (tmp_path / lock.FILE).write_text(json.dumps(left.name) + "\n")
    with lock.writing(tmp_path):
        pass  # a writer that found nothing to do
    assert lock.left_behind(tmp_path) == {left.name}
    with monkeypatch.context() as patch, lock.writing(tmp_path):
        patch.setattr(type(left), "unlink", refused)
        files.tidy_up(tmp_path, [])
    assert lock.left_behind(tmp_path) == {left.name}
    with lock.writing(tmp_path):
        files.tidy_up(tmp_path, [])
    assert not list(tmp_path.iterdir())


def refused(*_, **__):
    raise OSError(5, "Input/output error")
