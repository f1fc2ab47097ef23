"""What stands before the routes: bytes, time and the token, clients that hang up, refusals that arrive."""

import asyncio
import json

import pytest
from starlette.requests import Request

from dpw.serving import guard
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

    guarded = Guard(refuse, most_bytes=100, token=None, metrics=Metrics())
    asyncio.run(guarded(SCOPE, receive, send))
    assert sent[-1] == {"type": "http.response.body", "body": b""}


async def count_all(scope, receive, send):
    """An application that reads the whole body and answers how long it was."""
    length, more = 0, True
    while more:
        message = await receive()
        length, more = length + len(message.get("body", b"")), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps({"length": length}).encode()})


def asked(guarded, pieces, path="/predict", headers=(), endless=False):
    """Status and content of an answer to a body that comes in pieces and then, perhaps, stops coming."""
    sent = []

    async def go():
        waiting = [*pieces]

        async def receive():
            if not waiting:
                await asyncio.sleep(3600)
            body = waiting.pop(0)
            return {"type": "http.request", "body": body, "more_body": bool(waiting) or endless}

        async def send(message):
            sent.append(message)

        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "headers": list(headers),
            "query_string": b"",
        }
        await guarded(scope, receive, send)

    asyncio.run(go())
    return sent[0]["status"], json.loads(sent[1]["body"])


def made(**options):
    return Guard(count_all, **({"most_bytes": 1000, "token": None, "metrics": Metrics()} | options))


def test_a_client_that_stops_sending_is_sent_away():
    status, content = asked(made(seconds=0.1), [b"x" * 10], endless=True)
    assert status == 408
    assert "not whole after 0.1 s" in content["error"]


def test_no_more_bytes_are_held_than_there_is_room_for():
    guarded = made()
    guarded.held = guard.HELD * 1000 - 500  # of other clients that are not answered yet
    assert asked(guarded, [b"x" * 400])[0] == 200
    status, content = asked(guarded, [b"x" * 600])
    assert status == 503
    assert "ask again" in content["error"]
    assert guarded.held == guard.HELD * 1000 - 500, "what was read is given back, answered or not"


@pytest.mark.parametrize("host", [b"x/docs?", b"[", b"x#/healthz", b"\xff"])
def test_the_host_that_a_client_names_opens_no_door(host):
    status, _ = asked(made(token="word"), [b""], headers=[(b"host", host)])
    assert status == 401


@pytest.mark.parametrize("length", ["9" * 5000, "1001"])
def test_a_length_that_is_too_large_is_refused_unread(length):
    assert asked(made(), [b""], headers=[(b"content-length", length.encode())])[0] == 413
