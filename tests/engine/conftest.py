"""One toy world for all engine tests."""

import pytest

from tests.engine.toy import make_toy


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    return make_toy(tmp_path_factory.mktemp("toy"))
