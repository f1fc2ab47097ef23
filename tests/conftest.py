"""Every test runs on one thread, offline, and without a user's caches."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    """Keep pixel caches inside the test run."""
    monkeypatch.setenv("DPW_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
