"""Connections on which nothing comes."""

from types import SimpleNamespace

from dpw.serving.server import SilentClients


class Transport:
    closed = False

    def close(self):
        self.closed = True


class Connection:
    """As much of uvicorn's connection as is looked at."""

    def __init__(self, cycle=None):
        self.cycle, self.transport = cycle, Transport()


def test_a_client_without_a_whole_header_is_closed_and_others_are_not():
    done, working = (SimpleNamespace(response_complete=value) for value in (True, False))
    silent, busy, idle, active = Connection(), Connection(working), Connection(done), Connection(done)
    clients = SilentClients(seconds=10)
    for now in range(0, 40, 4):
        active.cycle = SimpleNamespace(response_complete=True)  # every time another request, answered
        clients.close([silent, busy, idle, active], float(now))
        assert silent.transport.closed == idle.transport.closed == (now > 10)
    assert not busy.transport.closed
    assert not active.transport.closed
