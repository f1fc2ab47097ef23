"""What stands before the routes: bytes, time and the token, whatever a client does."""

import asyncio
import json

import pytest

from dpw.serving import guard
from dpw.serving.guard import Guard
from dpw.serving.metrics import Metrics


async def read_all(scope, receive, send):
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
    return Guard(read_all, **({"most_bytes": 1000, "token": None, "metrics": Metrics()} | options))


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
