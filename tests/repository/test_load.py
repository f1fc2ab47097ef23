"""The load test notices what it is there for: lost, exchanged and wrong answers, and damage."""

import random
import shutil
import subprocess
import sys

import pytest
from benchmarks.load_client import Trial, request_bytes
from benchmarks.load_teacher import damage

from dpw import ContinualCLIP, DamagedFileError


@pytest.fixture
def trial(tmp_path):
    """Two requests about one image, of which the right answer is known."""
    (tmp_path / "a.png").write_bytes(b"pixels")
    made = Trial(tmp_path, requests=2)
    made.expected["state"] = {"a": {"class": "crow"}}
    made.answers = [("a", "state", {"class": "crow"})] * 2
    return made


def test_a_good_trial_and_each_kind_of_bad_one(trial):
    assert not any("WRONG" in line for line in trial.verdict())
    trial.answers[1] = ("a", "state", {"class": "swan"})
    assert "1 answers that differ" in trial.verdict()[0]
    trial.answers[1] = ("a", "another state", {"class": "crow"})
    assert "unchecked states ['another state']" in trial.verdict()[-1]
    trial.answers.pop()
    assert "1 lost" in trial.verdict()[0]
    trial.errors.append("asked a+1-2, got another's answer")
    assert 'WRONG: ["asked a+1-2' in trial.verdict()[-1]


def test_a_request_is_a_whole_form():
    head, _, body = request_bytes("a.png", b"pixels").partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert b'filename="a.png"\r\n\r\npixels\r\n' in body


def test_damage_is_noticed_and_can_be_mended(saved, tmp_path):
    folder = shutil.copytree(saved[1], tmp_path / "model")
    draw = random.Random(0)
    for _ in range(10):
        path, whole = damage(folder, draw)
        with pytest.raises(DamagedFileError):
            ContinualCLIP.from_pretrained(folder)
        path.write_bytes(whole)
    assert ContinualCLIP.from_pretrained(folder).tasks == ["birds", "metals"]


@pytest.mark.slow
def test_a_short_trial_from_start_to_verdict():
    words = [sys.executable, "-m", "benchmarks.load", "--rounds", "0", "--requests", "400"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "400 requests: 0 lost, 0 errors, 0 answers that differ" in done.stdout
    assert "server ended with code 0" in done.stdout
