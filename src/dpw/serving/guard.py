"""What stands before the routes: the size of a request, the token, and a count of what was answered."""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from dpw.serving.metrics import Metrics
from dpw.serving.requests import RefusedError

log = logging.getLogger("dpw.serve")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = ("/", "/docs", "/healthz", "/readyz", "/openapi.json")  # needs no token: says nothing of anybody's

CLIENT_GONE = 499  # as other servers count a client that did not wait
LINGER_SECONDS = 2.0  # in which the rest of a refused request is read


class Guard:
    """Refuses what is too large or has no right before anything is read, and counts every answer."""

    def __init__(self, app: App, *, most_bytes: int, token: str | None, metrics: Metrics) -> None:
        """`most_bytes` of a body are read; with a `token` all but the open addresses want it."""
        self.app, self.most_bytes, self.token, self.metrics = app, most_bytes, token, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it here."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        read, whole, status = 0, False, 200

        async def limited() -> MutableMapping[str, Any]:
            """Give the body on, as far as it may go."""
            nonlocal read, whole
            message = await receive()
            read += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if read > self.most_bytes:
                raise self._too_large()
            return message

        async def counted(message: MutableMapping[str, Any]) -> None:
            """Note the status; a refusal goes out before the rest of its request is thrown away."""
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self.metrics.status(status)
            elif status >= 400 and not whole and not message.get("more_body", False):
                await send({**message, "more_body": True})
                await _throw_away(receive, self.most_bytes)
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        try:
            self._check(Request(scope))
            await self.app(scope, limited, counted)
        except RefusedError as refused:
            await refusal(refused)(scope, receive, counted)
        except ClientDisconnect:
            await Response(status_code=CLIENT_GONE)(scope, receive, counted)
        except Exception:
            log.exception("a request to %s failed", scope.get("path"))
            await refusal(RefusedError(500, "the server failed: its log says why"))(scope, receive, counted)

    def _check(self, request: Request) -> None:
        """Refuse by the headers alone."""
        if self.token is not None and request.url.path not in OPEN:
            kind, _, given = request.headers.get("authorization", "").partition(" ")
            right = secrets.compare_digest(given.strip().encode(), self.token.encode())
            if kind.lower() != "bearer" or not right:
                raise RefusedError(401, "this address needs the header 'Authorization: Bearer TOKEN'")
        length = request.headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self.most_bytes:
            raise self._too_large()

    def _too_large(self) -> RefusedError:
        """The refusal of a body that is too long."""
        return RefusedError(
            413, f"the request is too large: send at most {self.most_bytes / 1e6:g} MB at once"
        )


async def _throw_away(receive: Receive, most_bytes: int) -> None:
    """Read what a refused client still sends, for a while: a connection closed at once loses the sentence."""
    try:
        async with asyncio.timeout(LINGER_SECONDS):
            while most_bytes > 0 and (message := await receive()).get("more_body", False):
                most_bytes -= len(message["body"])
    except TimeoutError:
        pass


def refusal(error: RefusedError) -> JSONResponse:
    """A refusal as an answer: one sentence, and how to do better where headers can say it."""
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
    if error.status in (401, 413):
        headers["Connection"] = "close"  # the rest of the body is not read
    return JSONResponse({"error": str(error)}, error.status, headers)


async def unless_gone(request: Request, answer: "Awaitable[Any]") -> Any:
    """Wait for an answer as long as somebody waits for it; None if the client has gone."""
    task, gone = asyncio.ensure_future(answer), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        return await task if task.done() else None
    finally:
        gone.cancel()
        if not task.done():
            task.cancel()


async def _gone(request: Request) -> None:
    """Ends when the client has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
