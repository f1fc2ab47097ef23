"""`dpw serve` as a process: answers of `dpw predict`, signals that lose nothing, mistakes in a sentence."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import httpx
import pytest

from tests.helpers.command_line import dpw


@contextmanager
def serving(*words):
    """A server process and the address it says."""
    command = [sys.executable, "-m", "dpw", "serve", *map(str, words), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = process.stderr.readline()
            found = re.search(r"at (http://\S+)", line)
            assert found, line
            yield process, found.group(1)
        finally:
            process.kill()


def ask(address, path, client=httpx, copies=1, **options):
    """Answers for one file, sent once or several times in one request."""
    files = [("images", (path.name, path.read_bytes()))] * copies
    reply = client.post(f"{address}/predict", files=files, timeout=60, **options)
    assert reply.status_code == 200, reply.text
    return reply.json()["predictions"]


def check(capsys, process, address, model, picture):
    """Equal to `dpw predict`, and what is accepted before a signal is answered."""
    code, out, _ = dpw(capsys, "predict", model, picture, "--json", "--top", 3)
    wanted = [one | {"image": ""} for one in json.loads(out)]
    given = ask(address, picture, data={"top": "3"})
    assert (code, [one | {"image": ""} for one in given]) == (0, wanted)
    assert re.search(r"^dpw_images_total [1-9]", httpx.get(f"{address}/metrics").text, re.MULTILINE)
    late = []
    with httpx.Client() as client:  # one connection, and so one process
        ask(address, picture, client, copies=2)
        asking = threading.Thread(target=lambda: late.append(ask(address, picture, client)))
        asking.start()
        until = time.monotonic() + 60
        while "dpw_images_waiting 1" not in httpx.get(f"{address}/metrics", timeout=60).text:
            assert time.monotonic() < until
        # It waits for a second image now, and the server is asked to end.
        process.send_signal(signal.SIGTERM)
        asking.join()
    assert late[0][0]["class"] == wanted[0]["class"]
    assert process.wait(60) == 0
    assert "Traceback" not in process.stderr.read()


def refuse_too_much(address):
    """A client that is in the middle of too large a request still gets the sentence."""
    for _ in range(5):
        pieces = (bytes(100_000) for _ in range(60))
        kind = {"content-type": "application/json"}
        refused = httpx.post(f"{address}/predict", content=pieces, headers=kind, timeout=60)
        assert (refused.status_code, "at most 4 MB" in refused.json()["error"]) == (413, True)


def test_a_served_model_answers_like_dpw_predict_and_ends_well(capsys, saved, picture):
    with serving(saved[1], "--wait", 2000, "--max-megabytes", 4) as (process, address):
        refuse_too_much(address)
        check(capsys, process, address, saved[1], picture)


@pytest.mark.slow
def test_several_processes_of_which_one_is_killed(capsys, saved, picture):
    with serving(saved[1], "--processes", 2, "--wait", 2000) as (process, address):
        victim = httpx.get(f"{address}/readyz").json()["process"]
        os.kill(victim, signal.SIGKILL)
        assert "starting it again" in process.stderr.readline()
        seen = set()
        until = time.monotonic() + 120
        while len(seen) < 2 and time.monotonic() < until:
            try:
                seen.add(httpx.get(f"{address}/readyz", timeout=60).json()["process"])
            except httpx.TransportError:
                time.sleep(0.1)
        assert len(seen - {victim}) == 2
        check(capsys, process, address, saved[1], picture)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nowhere", "--port", "0"], "nowhere"),
        (["{model}", "--host", "203.0.113.1"], "cannot listen at 203.0.113.1"),
        (["{model}", "--queue", "3"], "--queue 3 has no room"),
        (["{model}", "--token", " "], "token is empty"),
        pytest.param(["nowhere", "--processes", "2", "--port", "0"], "nowhere", marks=pytest.mark.slow),
    ],
)
def test_mistakes_are_one_sentence(capsys, saved, words, sentence):
    code, _, err = dpw(capsys, "serve", *(word.format(model=saved[1]) for word in words))
    assert code == 2
    assert sentence in err
    assert len(err.strip().splitlines()) == 1


def test_a_missing_extra_is_named(capsys, monkeypatch):
    monkeypatch.setattr("dpw.serving.extras.find_spec", lambda _: None)
    code, _, err = dpw(capsys, "serve", "mini")
    assert code == 2
    assert "dpw serve needs fastapi, which is not installed: pip install 'dpw[serve]'" in err
