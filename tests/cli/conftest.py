"""The toy world of the engine tests, and no network."""

import socket

import pytest

from tests.engine.toy import make_toy


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    return make_toy(tmp_path_factory.mktemp("toy-cli"))


@pytest.fixture
def no_network(monkeypatch):
    """Any attempt to reach another machine fails the test."""

    def refuse(*_):
        raise AssertionError("tried to use the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
