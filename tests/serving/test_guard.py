"""What stands before the routes: clients that hang up, and refusals that must arrive."""

import asyncio

from starlette.requests import Request

from dpw.serving.guard import Guard
from dpw.serving.metrics import Metrics
from dpw.serving.requests import RefusedError

SCOPE = {"type": "http", "method": "POST", "path": "/predict", "query_string": b"", "headers": []}
PIECE = {"type": "http.request", "body": bytes(40), "more_body": True}


def passed(inner, *messages, most_bytes=1000):
    """Let one request through a guard; gives its metrics and what was read and sent, in order."""
    metrics, left, seen = Metrics(), list(messages), []

    async def receive():
        seen.append("read")
        return left.pop(0)

    async def send(message):
        seen.append(message.get("status") or message["body"])

    asyncio.run(Guard(inner, most_bytes=most_bytes, token=None, metrics=metrics)(SCOPE, receive, send))
    return metrics.text(), seen


async def read_all(scope, receive, send):
    """An application that wants the whole body."""
    await Request(scope, receive).body()


async def refuse(scope, receive, send):
    """An application that refuses before it reads."""
    raise RefusedError(400, "no")


def test_a_client_that_hangs_up_in_the_middle_is_no_failure_of_ours(caplog):
    numbers, _ = passed(read_all, PIECE, {"type": "http.disconnect"})
    assert 'dpw_requests_total{status="499"} 1' in numbers
    assert 'dpw_requests_total{status="500"} 0' in numbers
    assert caplog.records == []


def test_a_refusal_goes_out_before_the_rest_is_thrown_away():
    last = {"type": "http.request", "body": b"", "more_body": False}
    _, seen = passed(refuse, PIECE, PIECE, last)
    assert seen == [400, b'{"error":"no"}', "read", "read", "read", b""]
    _, seen = passed(read_all, PIECE, PIECE, PIECE, last, most_bytes=50)
    assert (seen[:3], seen[-1]) == (["read", "read", 413], b"")


def test_not_everything_is_read_from_a_client_that_never_ends():
    _, seen = passed(refuse, *[PIECE] * 100, most_bytes=100)
    assert seen.count("read") == 3


def test_a_client_that_sends_nothing_more_is_not_waited_for(monkeypatch):
    monkeypatch.setattr("dpw.serving.guard.LINGER_SECONDS", 0.01)
    sent = []

    async def receive():
        await asyncio.sleep(60)

    async def send(message):
        sent.append(message)

    guard = Guard(refuse, most_bytes=100, token=None, metrics=Metrics())
    asyncio.run(guard(SCOPE, receive, send))
    assert sent[-1] == {"type": "http.response.body", "body": b""}
