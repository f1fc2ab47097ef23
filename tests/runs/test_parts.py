"""Whoever hands out the parts of a run needs no torch, and decodes images while workers are on their way."""

import subprocess
import sys

import pytest

from dpw.clip.preprocessing import Preprocessing
from dpw.data.pixels import PixelCache, cache_folder
from dpw.runs.config import load_run_benchmark
from dpw.runs.parts import read_ahead
from tests.helpers.toy_runs import config

NO_TORCH = """
import sys
import dpw.cli.side_by_side, dpw.cluster.grid, dpw.cluster.processes, dpw.runs.parts
sys.exit("torch" in sys.modules)
"""


def decoded(toy, monkeypatch):
    """Of all images of the benchmark those that are not decoded any more."""
    read = []
    monkeypatch.setattr(PixelCache, "_decode", lambda *given: read.extend(given[3]) or {})
    cache = PixelCache(Preprocessing.from_folder(toy / "clip"), cache_folder())
    splits = [split for task in load_run_benchmark(config(toy)).tasks for split in task.splits().values()]
    for split in splits:
        cache.pixels(split, range(len(split)))
    return sum(map(len, splits)) - len(read)


def test_images_are_decoded_until_it_is_enough(toy, tmp_path, monkeypatch):
    monkeypatch.setenv("DPW_CACHE", str(tmp_path))
    asked = []
    read_ahead(config(toy), lambda: len(asked) > 2 or asked.append(1) is not None)
    assert 0 < decoded(toy, monkeypatch) < 7 * (8 + 3 + 4)


def test_all_of_them_if_it_is_never_enough(toy, tmp_path, monkeypatch):
    monkeypatch.setenv("DPW_CACHE", str(tmp_path))
    read_ahead(config(toy), lambda: False)
    assert decoded(toy, monkeypatch) == 7 * (8 + 3 + 4)


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 1), (4, 3), (64, 7)])
def test_a_core_is_left_to_whoever_prepares_the_workers(toy, tmp_path, monkeypatch, cores, threads):
    monkeypatch.setenv("DPW_CACHE", str(tmp_path))
    monkeypatch.setattr("dpw.data.pixels.own_threads", lambda: cores)
    used = []
    monkeypatch.setattr("dpw.runs.parts.check_readable", lambda cache, *_: used.append(cache.workers))
    read_ahead(config(toy), lambda: False)
    assert set(used) == {threads}


def test_what_is_wrong_is_left_to_the_run(toy, tmp_path):
    read_ahead(config(toy, model="openai/never-fetched"), lambda: False)
    read_ahead(config(toy, benchmark=str(tmp_path / "nothing.yaml")), lambda: False)


def test_no_torch_is_needed():
    assert subprocess.run([sys.executable, "-c", NO_TORCH], check=False).returncode == 0
