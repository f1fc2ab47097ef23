"""Every test runs on one thread, offline and without a user's caches; what tests of several rooms share."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("DPW_TRACEBACK", "1")  # a test must see what a user gets as one sentence

import socket
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from dpw import ContinualCLIP
from dpw.benchmarks.mini import IMAGES_PER_CLASS
from tests.helpers.dataset_layouts import build_all
from tests.helpers.toy_learner import fresh, task
from tests.helpers.toy_runs import make_toy, run

torch.set_num_threads(1)

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")

SHORT = {"training.epochs": 2, "training.batch_size": 4, "prefix_length": 2}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    """Keep pixel caches inside the test run."""
    monkeypatch.setenv("DPW_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def no_network(monkeypatch):
    """Any attempt to reach another machine fails the test."""

    def refuse(*_):
        raise AssertionError("tried to use the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def few_of_mini(monkeypatch, tmp_path_factory):
    """`mini` with two images of a class in every split, for tests of what is done with them.

    Its images are others under the same names, so their pixels are kept apart.
    """
    monkeypatch.setenv("DPW_CACHE", str(tmp_path_factory.mktemp("few")))
    for split in IMAGES_PER_CLASS:
        monkeypatch.setitem(IMAGES_PER_CLASS, split, 2)


@pytest.fixture
def short_learning(monkeypatch):
    """Learning that still looks for its rate and length, but takes two steps each time."""
    for name in ("TRIAL_STEPS", "LEAST_STEPS", "MOST_STEPS", "FEWEST_STEPS"):
        monkeypatch.setattr(f"dpw.engine.recipe.{name}", 2)


@pytest.fixture(scope="session")
def toy(tmp_path_factory) -> Path:
    """A tiny CLIP, three toy tasks and a benchmark over them; tests must not change them."""
    return make_toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="session")
def saved(toy, tmp_path_factory) -> tuple[ContinualCLIP, Path]:
    """A learner that has learned two toy tasks, and the folder it is saved in."""
    model = fresh(toy)
    model.learn(task(toy, "birds"))
    model.learn(task(toy, "metals"))
    folder = tmp_path_factory.mktemp("model") / "model"
    model.save_pretrained(folder)
    return model, folder


@pytest.fixture(scope="session")
def dpw_run(toy, tmp_path_factory) -> Path:
    """A finished run of DPW over the toy benchmark."""
    folder = tmp_path_factory.mktemp("runs") / "dpw"
    # A bias near zero makes the totals exceed one, so that the adapter has something to do.
    run(toy, folder, settings=SHORT | {"adapter_rank": 4, "image_bias": 0.5})
    return folder


@pytest.fixture(scope="session")
def diki_run(toy, tmp_path_factory) -> Path:
    """A finished run of DIKI over the toy benchmark."""
    folder = tmp_path_factory.mktemp("runs") / "diki"
    run(toy, folder, method="diki", settings=SHORT)
    return folder


@pytest.fixture(scope="session")
def picture(toy) -> Path:
    """A test image of the first toy task."""
    return toy / "data" / "birds" / "test" / "crow" / "0.png"


@pytest.fixture(scope="session")
def data_root(tmp_path_factory) -> Path:
    """Tiny copies of all eleven public datasets; tests must not change them."""
    return build_all(tmp_path_factory.mktemp("layouts"))


@pytest.fixture(scope="session")
def real_root() -> Path:
    """Real subsets in the same layouts, for tests marked `real`; the folder is named by the environment."""
    if "DPW_REAL_DATA" not in os.environ:
        pytest.fail("DPW_REAL_DATA must name a folder of public datasets: make test-real DATA=FOLDER")
    return Path(os.environ["DPW_REAL_DATA"])
