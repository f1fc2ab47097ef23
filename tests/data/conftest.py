"""Shared folders of test images."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.data.layouts import build_all

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")


@pytest.fixture(scope="session")
def data_root(tmp_path_factory) -> Path:
    """Tiny copies of all eleven public datasets; tests must not change them."""
    return build_all(tmp_path_factory.mktemp("layouts"))


@pytest.fixture(scope="session")
def real_root() -> Path:
    """Real subsets in the same layouts, where the environment names a folder of them."""
    if "DPW_REAL_DATA" not in os.environ:
        pytest.skip("DPW_REAL_DATA is not set")
    return Path(os.environ["DPW_REAL_DATA"])
