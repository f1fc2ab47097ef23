"""The finished DPW run opened for looking into."""

import pytest

from dpw.analysis import open_run


@pytest.fixture(scope="session")
def subject(dpw_run):
    return open_run(dpw_run, images=6)
