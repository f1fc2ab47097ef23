"""Requests that arrive together are answered together; no more is accepted than can wait."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from dpw.clip.preprocessing import Pixels
from dpw.engine.prediction import Prediction
from dpw.serving.served import Question, ServedModel


def _nobody(images: int, seconds: float) -> None:
    """Nobody hears of batches."""


class QueueFullError(Exception):
    """Too many images wait already; `seconds` says when to ask again."""

    def __init__(self, seconds: int) -> None:
        """Ask again after some seconds."""
        super().__init__(f"too many images are waiting: ask again in {seconds} s")
        self.seconds = seconds


@dataclass
class Waiting:
    """Images of one request, decoded, with the model that was current when they were accepted."""

    model: ServedModel
    question: Question
    pixels: Pixels
    names: list[str]
    answers: "asyncio.Future[list[Prediction]]"


class Batcher:
    """Gathers waiting images into batches and computes them one batch after another, off the event loop."""

    def __init__(
        self,
        *,
        most: int,
        wait: float,
        room: int,
        on_batch: Callable[[int, float], None] = _nobody,
    ) -> None:
        """At most `most` images in a batch, `wait` seconds for company, `room` images accepted at once.

        `on_batch(images, seconds)` hears of every batch.
        """
        self.most, self.wait, self.room, self.on_batch = most, wait, room, on_batch
        self.accepted = 0  # images that were let in and are not answered yet
        self._expected = 0  # images that were accepted when the last batch was done, its own among them
        self._rate = 0.0  # images a second, of late
        self._queue: deque[Waiting] = deque()
        self._arrived = asyncio.Event()
        self._compute = ThreadPoolExecutor(1, "dpw-compute")
        self._worker: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to answer."""
        self._worker = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Answer what was accepted, then end."""
        while self._queue or self.accepted:
            await asyncio.sleep(0.01)
        if self._worker is not None:
            self._worker.cancel()
        self._compute.shutdown()

    def reserve(self, images: int) -> None:
        """Let some images in; `release` must follow.

        Raises:
            QueueFullError: there is no room for them now.
        """
        if self.accepted + images > self.room:
            seconds = self.accepted / self._rate if self._rate else 1.0
            raise QueueFullError(max(1, min(60, round(seconds))))
        self.accepted += images

    def release(self, images: int) -> None:
        """Images have left, answered or not."""
        self.accepted -= images

    async def answer(
        self, model: ServedModel, question: Question, pixels: Pixels, names: list[str]
    ) -> list[Prediction]:
        """Answers for decoded images, computed with whatever else is waiting.

        Whoever is cancelled while waiting is taken out of the queue.
        """
        future: asyncio.Future[list[Prediction]] = asyncio.get_running_loop().create_future()
        self._queue.append(Waiting(model, question, pixels, names, future))
        self._arrived.set()
        return await future

    async def _run(self) -> None:
        """Batch after batch, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            await self._gather()
            batch = take_batch(self._queue, self.most)
            if not batch:
                continue
            try:
                answers = await loop.run_in_executor(self._compute, self._answer, batch)
            except Exception as error:
                for one in batch:
                    if not one.answers.done():
                        one.answers.set_exception(error)
                continue
            self._expected = self.accepted
            for one, found in zip(batch, answers, strict=True):
                if not one.answers.done():
                    one.answers.set_result(found)

    async def _gather(self) -> None:
        """Wait for a first image, and then a moment until as many are there as there were lately.

        Whoever was just answered may ask again, and what a batch costs besides its images is then paid once
        for all. Somebody who is alone waits for nobody.
        """
        while not self._queue:
            await self._next()
        try:
            async with asyncio.timeout(self.wait):
                while sum(len(one.names) for one in self._queue) < min(self._expected, self.most):
                    await self._next()
        except TimeoutError:
            pass

    async def _next(self) -> None:
        """Wait for another request."""
        self._arrived.clear()
        await self._arrived.wait()

    def _answer(self, batch: Sequence[Waiting]) -> list[list[Prediction]]:
        """All answers of a batch, request by request."""
        began = time.monotonic()
        pixels = np.concatenate([one.pixels for one in batch])
        names = [name for one in batch for name in one.names]
        found = iter(batch[0].model.answer(pixels, names, batch[0].question))
        answers = [[next(found) for _ in one.names] for one in batch]
        seconds = time.monotonic() - began
        self._rate = 0.8 * self._rate + 0.2 * len(names) / max(seconds, 1e-6)
        self.on_batch(len(names), seconds)
        return answers


def take_batch(queue: "deque[Waiting]", most: int) -> list[Waiting]:
    """The oldest request and those behind it that ask the same of the same model, at most `most` images.

    Requests whose client has gone are dropped. A request is never divided, so one with more images than
    `most` is a batch of its own; models that let a batch vote get every request alone.
    """
    batch: list[Waiting] = []
    others: list[Waiting] = []
    images = 0
    while queue:
        one = queue.popleft()
        if one.answers.done():
            continue
        alike = not batch or (one.model is batch[0].model and one.question == batch[0].question)
        if batch and (not alike or one.model.votes or images + len(one.names) > most):
            others.append(one)
            continue
        batch.append(one)
        images += len(one.names)
    queue.extend(others)
    return batch
