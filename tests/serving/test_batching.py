"""Who is answered together with whom."""

import asyncio
import time
from collections import deque
from types import SimpleNamespace

import numpy as np
import pytest

from dpw.errors import InputError
from dpw.serving.batching import Batcher, QueueFullError, Waiting, take_batch
from dpw.serving.served import Question


class Model:
    """Answers every image with its first pixel, and remembers the sizes of its batches."""

    def __init__(self, votes=False):
        self.votes, self.sizes = votes, []

    def answer(self, pixels, names, question):
        if question.top == 13:
            raise InputError("thirteen is refused")
        self.sizes.append(len(names))
        return [(name, int(one[0, 0, 0])) for name, one in zip(names, pixels, strict=True)]


def images(*values):
    return np.stack([np.full((3, 1, 1), value, dtype=np.uint8) for value in values])


def waiting(model, count, question=Question(), done=False):  # noqa: B008
    answers = SimpleNamespace(done=lambda: done)
    return Waiting(model, question, images(*range(count)), ["x"] * count, answers)


def test_the_oldest_takes_along_those_who_ask_the_same():
    model, other = Model(), Model()
    asked = Question(classes=("a",))
    queue = deque(
        [
            waiting(model, 2),
            waiting(model, 1, asked),
            waiting(other, 1),
            waiting(model, 1, done=True),
            waiting(model, 3),
        ]
    )
    first = take_batch(queue, most=8)
    assert [len(one.names) for one in first] == [2, 3]
    assert len(queue) == 2
    assert take_batch(queue, most=8)[0].question == asked


def test_a_batch_has_its_limit_and_a_vote_is_never_mixed():
    model, voter = Model(), Model(votes=True)
    queue = deque([waiting(model, 5), waiting(model, 4), waiting(model, 3)])
    assert [len(one.names) for one in take_batch(queue, most=8)] == [5, 3]
    assert len(take_batch(deque([waiting(model, 20), waiting(model, 1)]), most=8)) == 1
    assert len(take_batch(deque([waiting(voter, 1), waiting(voter, 1)]), most=8)) == 1
    assert take_batch(deque(), most=8) == []


def test_everybody_gets_their_own_answers_and_errors_only_their_own():
    async def scenario():
        model = Model()
        batcher = Batcher(most=8, wait=0.02, room=100)
        batcher.start()
        asked = [
            batcher.answer(model, Question(top=13 if n == 5 else 1), images(n, n + 100), [f"{n}a", f"{n}b"])
            for n in range(12)
        ]
        found = await asyncio.gather(*asked, return_exceptions=True)
        gone = asyncio.ensure_future(batcher.answer(model, Question(), images(1), ["gone"]))
        await asyncio.sleep(0)
        gone.cancel()
        late = await batcher.answer(model, Question(), images(7), ["late"])
        await batcher.stop()
        return model, found, late

    model, found, late = asyncio.run(scenario())
    assert isinstance(found.pop(5), InputError)
    assert found == [[(f"{n}a", n), (f"{n}b", n + 100)] for n in range(12) if n != 5]
    assert max(model.sizes) == 8
    assert late == [("late", 7)]
    assert sum(model.sizes) == 22 + 1


def test_the_queue_has_a_limit():
    async def scenario():
        batcher = Batcher(most=8, wait=0, room=3)
        batcher.reserve(2)
        with pytest.raises(QueueFullError, match="ask again in 1 s") as refused:
            batcher.reserve(2)
        batcher.release(2)
        batcher.reserve(3)
        batcher.release(3)
        return refused.value.seconds

    assert asyncio.run(scenario()) == 1


async def ask_again_and_again(batcher, model, number, times, pause=0.0):
    """A client that asks one image after another."""
    for _ in range(times):
        await asyncio.sleep(pause)
        batcher.reserve(1)
        try:
            assert await batcher.answer(model, Question(), images(number), [str(number)]) == [
                (str(number), number)
            ]
        finally:
            batcher.release(1)


def test_those_who_were_answered_together_ask_together_again():
    class Slow(Model):
        """The first batch takes until all clients have asked."""

        def answer(self, pixels, names, question):
            while not self.sizes and batcher.accepted < 8:
                time.sleep(0.001)
            return super().answer(pixels, names, question)

    async def scenario():
        nonlocal batcher
        batcher = Batcher(most=64, wait=0.5, room=100)
        batcher.start()
        clients = (ask_again_and_again(batcher, model, n, 4, pause=n / 1000) for n in range(8))
        await asyncio.gather(*clients)
        await batcher.stop()

    model, batcher = Slow(), None
    asyncio.run(scenario())
    assert model.sizes == [1, 8, 8, 8, 7]  # the first has asked once more than the others, and is done


def test_somebody_who_is_alone_waits_for_nobody():
    async def scenario():
        batcher = Batcher(most=64, wait=60, room=100)
        batcher.start()
        async with asyncio.timeout(30):
            await ask_again_and_again(batcher, model, 1, 10)
        await batcher.stop()

    model = Model()
    asyncio.run(scenario())
    assert model.sizes == [1] * 10
