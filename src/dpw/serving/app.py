"""The HTTP application: what can be asked of a served model, and how refusals look."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from dpw.clip.preprocessing import Pixels
from dpw.data.image_like import pixel_count
from dpw.engine.prediction import Prediction
from dpw.errors import InputError
from dpw.serving.batching import Batcher, QueueFullError
from dpw.serving.guard import CLIENT_GONE, Guard, refusal, unless_gone
from dpw.serving.metrics import Metrics
from dpw.serving.openapi import PREDICT
from dpw.serving.requests import Asked, RefusedError, read_request
from dpw.serving.served import ServedModel
from dpw.serving.watching import ModelWatcher


@dataclass(frozen=True)
class Limits:
    """How much is taken on at once.

    Attributes:
        batch: images computed together at most.
        wait: seconds that a batch waits for company at most.
        queue: images that may be accepted and not answered.
        request_images: images in one request.
        request_bytes: bytes of one request.
        classes: names of classes in one request.
        pixels: of all images of one request; a small file may have very many.
    """

    batch: int = 64
    wait: float = 0.01
    queue: int = 512
    request_images: int = 64
    request_bytes: int = 32_000_000
    classes: int = 1000
    pixels: int = 256_000_000


class Service:
    """One process of the server: the watched model, the queue, the decoders and the numbers about them."""

    def __init__(self, watcher: ModelWatcher, limits: Limits, metrics: Metrics) -> None:
        """Serve what the watcher holds."""
        self.watcher, self.limits, self.metrics = watcher, limits, metrics
        self.batcher = Batcher(
            most=limits.batch, wait=limits.wait, room=limits.queue, on_batch=self._count_batch
        )
        self.decoders = ThreadPoolExecutor(min(4, os.cpu_count() or 1), "dpw-decode")
        self.draining = False

    def _count_batch(self, images: int, seconds: float) -> None:
        """Note a computed batch."""
        self.metrics.observe("dpw_batch_images", images)
        self.metrics.observe("dpw_batch_seconds", seconds)

    @asynccontextmanager
    async def running(self, app: FastAPI) -> AsyncIterator[None]:  # noqa: ARG002
        """Watch and answer; at the end finish what was accepted."""
        self.batcher.start()
        self.watcher.start()
        try:
            yield
        finally:
            self.draining = True
            await self.batcher.stop()
            self.watcher.stop()
            self.decoders.shutdown()

    async def predict(self, request: Request) -> Response:
        """Answer one request for predictions."""
        began, model = time.monotonic(), self.watcher.current
        asked = await read_request(request, self.limits.request_images)
        if len(asked.question.classes or ()) > self.limits.classes:
            raise RefusedError(413, f"too many classes in one request: give at most {self.limits.classes}")
        model.candidates(asked.question)  # what cannot be asked is refused before anything is decoded
        self.batcher.reserve(len(asked.images))
        self._note()
        try:
            answers = await unless_gone(request, self._answers(model, asked))
        finally:
            self.batcher.release(len(asked.images))
            self._note()
        if answers is None:
            return Response(status_code=CLIENT_GONE)
        if all(one.error is not None for one in answers):
            raise RefusedError(400, str(answers[0].error))
        self.metrics.count("dpw_images_total", len(answers))
        self.metrics.observe("dpw_request_seconds", time.monotonic() - began)
        return JSONResponse({"model": model.revision, "predictions": [one.as_json() for one in answers]})

    async def _answers(self, model: ServedModel, asked: Asked) -> list[Prediction]:
        """Decode in a thread, queue what can be read, and put the answers in the order of the images."""
        loop = asyncio.get_running_loop()
        pixels, errors = await loop.run_in_executor(self.decoders, self._decoded, model, asked)
        rows = [row for row in range(len(asked.images)) if row not in errors]
        found: list[Prediction] = []
        if rows:
            names = [asked.names[row] for row in rows]
            found = await self.batcher.answer(model, asked.question, pixels[rows], names)
        by_row = dict(zip(rows, found, strict=True))
        return [
            by_row[row] if row in by_row else Prediction(name, error=str(errors[row]))
            for row, name in enumerate(asked.names)
        ]

    def _decoded(self, model: ServedModel, asked: Asked) -> tuple[Pixels, dict[int, InputError]]:
        """The images of a request, unless decoding them would take the server from everybody else."""
        count = sum(map(pixel_count, asked.images))
        if count > self.limits.pixels:
            raise RefusedError(
                413,
                f"the images have {count / 1e6:.3g} megapixels together: send at most "
                f"{self.limits.pixels / 1e6:g} at once",
            )
        return model.read(asked.images, asked.names)

    def ready(self) -> dict[str, Any]:
        """Whether this process takes requests, with which model, and why not with a newer one."""
        model = self.watcher.current
        return {
            "ready": not self.draining,
            "model": model.revision,
            "tasks": model.learner.tasks,
            "loaded": model.loaded,
            "refused": self.watcher.refused,
            "process": os.getpid(),
        }

    def numbers(self) -> str:
        """The metrics of all processes."""
        self._note()
        return self.metrics.text()

    def _note(self) -> None:
        """Bring what others count up to date, where all processes can read it."""
        self.metrics.set("dpw_images_waiting", self.batcher.accepted)
        self.metrics.set("dpw_model_reloads_total", self.watcher.reloads)
        self.metrics.set("dpw_model_refusals_total", self.watcher.refusals)
        self.metrics.set("dpw_tasks", len(self.watcher.current.learner.tasks))


def make_app(
    watcher: ModelWatcher, limits: Limits, *, token: str | None = None, metrics: Metrics | None = None
) -> FastAPI:
    """The application over a watched model.

    Args:
        watcher: holds the model.
        limits: how much is taken on at once.
        token: what a client must send as `Authorization: Bearer TOKEN`; nobody is asked by default.
        metrics: where to count; in memory by default.

    Returns:
        An ASGI application.

    Example:
        >>> from pathlib import Path
        >>> from dpw.serving.app import Limits, make_app
        >>> from dpw.serving.served import load_served
        >>> from dpw.serving.watching import ModelWatcher
        >>> watcher = ModelWatcher(Path("mini"), lambda: load_served("mini"), seconds=1)
        >>> make_app(watcher, Limits()).title
        'dpw'
    """
    numbers = metrics or Metrics()
    service = Service(watcher, limits, numbers)
    app = FastAPI(
        title="dpw", version=version("dpw"), docs_url=None, redoc_url=None, lifespan=service.running
    )
    app.add_middleware(Guard, most_bytes=limits.request_bytes, token=token, metrics=numbers)
    _add_routes(app, service)
    _add_refusals(app)
    return app


def _add_routes(app: FastAPI, service: Service) -> None:
    """The addresses."""

    @app.post("/predict", summary="Classify images", openapi_extra=PREDICT, response_class=JSONResponse)
    async def predict(request: Request) -> Response:
        """Classify one or many images, as `dpw predict` does; nobody says which task they belong to."""
        return await service.predict(request)

    @app.get("/tasks", summary="What the model has learned")
    async def tasks() -> dict[str, Any]:
        """Tasks with their classes, the method and the CLIP."""
        return service.watcher.current.describe()

    @app.get("/healthz", summary="Whether the process lives")
    async def healthz() -> dict[str, bool]:
        """Always true: a process that is not alive does not answer."""
        return {"alive": True}

    @app.get("/readyz", summary="Whether requests are taken, and with which state of the model")
    async def readyz() -> JSONResponse:
        """Ready, the served state, and why a newer one was refused."""
        state = service.ready()
        return JSONResponse(state, 200 if state["ready"] else 503)

    @app.get("/metrics", summary="Numbers for Prometheus", response_class=PlainTextResponse)
    async def metrics() -> str:
        """Requests, latency, batches, queue and reloads, over all processes."""
        return service.numbers()

    async def page() -> HTMLResponse:
        """This description for people; loads nothing from elsewhere."""
        text = files("dpw.serving").joinpath("page.html").read_text(encoding="utf-8")
        return HTMLResponse(
            text, headers={"Content-Security-Policy": "default-src 'self' 'unsafe-inline' data:"}
        )

    for path in ("/", "/docs"):
        app.get(path, include_in_schema=False)(page)


def _add_refusals(app: FastAPI) -> None:
    """One sentence for whatever is refused."""

    @app.exception_handler(RefusedError)
    async def refused(request: Request, error: RefusedError) -> JSONResponse:  # noqa: ARG001
        """What the request itself has wrong."""
        return refusal(error)

    @app.exception_handler(InputError)
    async def wrong(request: Request, error: InputError) -> JSONResponse:  # noqa: ARG001
        """What the model cannot be asked."""
        return refusal(RefusedError(400, str(error)))

    @app.exception_handler(QueueFullError)
    async def full(request: Request, error: QueueFullError) -> JSONResponse:  # noqa: ARG001
        """Ask again later."""
        return JSONResponse({"error": str(error)}, 429, {"Retry-After": str(error.seconds)})

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> JSONResponse:
        """An address that does not exist, or not for this verb."""
        sentence = f"there is no {request.method} {request.url.path}: look at / for what there is"
        return JSONResponse({"error": sentence}, error.status_code, error.headers)
