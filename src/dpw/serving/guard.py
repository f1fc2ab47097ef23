"""What stands before the routes: the size of a request, the token, and a count of what was answered."""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.datastructures import Headers
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
BODY_SECONDS = 60.0  # for all of a request to come
HELD = 8  # requests of the largest size whose bytes are held at once


class Guard:
    """Refuses what is too large or has no right before anything is read, and counts every answer."""

    def __init__(
        self, app: App, *, most_bytes: int, token: str | None, metrics: Metrics, seconds: float = BODY_SECONDS
    ) -> None:
        """`most_bytes` of a body are read, within `seconds`; all but the open addresses want the `token`."""
        self.app, self.most_bytes, self.token, self.metrics = app, most_bytes, token, metrics
        self.seconds = seconds
        self.held = 0  # bytes of requests that are not answered yet

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it here."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        read, whole, status = 0, False, 200
        deadline = asyncio.get_running_loop().time() + self.seconds

        async def limited() -> MutableMapping[str, Any]:
            """Give the body on, as far as it may go and as long as it may take."""
            nonlocal read, whole
            if whole:
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise RefusedError(
                    408,
                    f"the request was not whole after {self.seconds:g} s: send it faster, or less at once",
                ) from None
            length, whole = len(message.get("body", b"")), not message.get("more_body", False)
            read, self.held = read + length, self.held + length
            if read > self.most_bytes:
                raise self._too_large()
            if self.held > HELD * self.most_bytes:
                raise RefusedError(503, "the server holds too many bytes of requests: ask again in a second")
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
            self._check(scope["path"], Request(scope).headers)
            await self.app(scope, limited, counted)
        except RefusedError as refused:
            await refusal(refused)(scope, receive, counted)
        except ClientDisconnect:
            await Response(status_code=CLIENT_GONE)(scope, receive, counted)
        except Exception:
            log.exception("a request to %r failed", scope.get("path"))
            await refusal(RefusedError(500, "the server failed: its log says why"))(scope, receive, counted)
        finally:
            self.held -= read

    def _check(self, path: str, headers: Headers) -> None:
        """Refuse by the address that will answer (never by the host a client names) and the headers."""
        if self.token is not None and path not in OPEN:
            kind, _, given = headers.get("authorization", "").partition(" ")
            right = secrets.compare_digest(given.strip().encode(), self.token.encode())
            if kind.lower() != "bearer" or not right:
                raise RefusedError(401, "this address needs the header 'Authorization: Bearer TOKEN'")
        length = headers.get("content-length", "0")
        if length.isdecimal() and (len(length) > 20 or int(length) > self.most_bytes):
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
    if error.status == 503:
        headers["Retry-After"] = "1"
    if error.status in (401, 408, 413, 503):
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
