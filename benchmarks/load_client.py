"""Clients of the load test: plain HTTP/1.1 over asyncio, so that they cost little beside the server."""

import asyncio
import json
import random
import threading
from pathlib import Path
from typing import Any

BOUNDARY = "dpw-load-boundary"


def request_bytes(name: str, image: bytes) -> bytes:
    """A whole `POST /predict` with one image as a form."""
    part = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{{}}"{{}}\r\n\r\n'
    body = part.format("top", "").encode() + b"3\r\n"
    body += (
        part.format("images", f'; filename="{name}"').encode() + image + f"\r\n--{BOUNDARY}--\r\n".encode()
    )
    head = (
        f"POST /predict HTTP/1.1\r\nHost: load\r\nContent-Type: multipart/form-data; boundary={BOUNDARY}\r\n"
    )
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Client:
    """One connection that is kept."""

    def __init__(self, host: str, port: int) -> None:
        """Connect when entered."""
        self.host, self.port = host, port

    async def __aenter__(self) -> "Client":
        """Connect."""
        self.reader, self.writer = await asyncio.open_connection(self.host, self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        self.writer.close()

    async def predict(self, name: str, image: bytes) -> tuple[int, Any]:
        """Status and JSON of one request."""
        self.writer.write(request_bytes(name, image))
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        status = int(head.split(" ", 2)[1])
        length = next(
            int(line[15:]) for line in head.lower().split("\r\n") if line.startswith("content-length:")
        )
        return status, json.loads(await self.reader.readexactly(length))


class Trial:
    """Requests that are asked and checked; answers are compared once the teacher has told what is right."""

    def __init__(self, images: Path, requests: int) -> None:
        """Ask about the images of a folder."""
        paths = sorted(images.glob("*.png"))
        self.images = {path.stem: path.read_bytes() for path in paths}
        self.left, self.requests = requests, requests
        self.expected: dict[str, dict[str, Any]] = {}
        self.events: dict[str, int] = {}
        self.answers: list[tuple[str, str, Any]] = []
        self.errors: list[str] = []
        self.retries = self.hung_up = 0

    async def client(self, host: str, port: int, number: int) -> None:
        """Ask until all requests are done; a refusal for lack of room is asked again."""
        draw = random.Random(number)
        stems = list(self.images)
        async with Client(host, port) as one:
            while self.left > 0:
                self.left -= 1
                stem, tag = draw.choice(stems), f"{number}-{self.left}"
                status, reply = await one.predict(f"{stem}+{tag}.png", self.images[stem])
                while status == 429:
                    self.retries += 1
                    await asyncio.sleep(1)
                    status, reply = await one.predict(f"{stem}+{tag}.png", self.images[stem])
                if status != 200:
                    self.errors.append(f"{status}: {reply}")
                    continue
                (answer,) = reply["predictions"]
                if answer.pop("image") != f"{stem}+{tag}.png":
                    self.errors.append(f"asked {stem}+{tag}, got another's answer")
                self.answers.append((stem, reply["model"], answer))

    def verdict(self) -> list[str]:
        """What came of it."""
        unknown = {model for _, model, _ in self.answers} - set(self.expected)
        known = [one for one in self.answers if one[1] in self.expected]
        wrong = [stem for stem, model, answer in known if answer != self.expected[model][stem]]
        lost = self.requests - len(self.answers)
        by_model = len({model for _, model, _ in self.answers})
        lines = [
            f"{self.requests} requests: {lost} lost, {len(self.errors)} errors, {len(wrong)} answers that "
            f"differ from dpw predict, {by_model} states of the model answered, {self.retries} times 429, "
            f"{self.hung_up} clients hung up",
            f"meanwhile: {', '.join(f'{count} x {event}' for event, count in sorted(self.events.items()))}",
        ]
        if lost or self.errors or wrong or unknown:
            lines.append(f"WRONG: {self.errors[:3]} {wrong[:3]} unchecked states {sorted(unknown)}")
        return lines


async def hang_up(host: str, port: int, trial: Trial, ended: threading.Event) -> None:
    """Clients that go in the middle of a request, or before their answer comes."""
    draw = random.Random(0)
    whole = request_bytes("rude.png", next(iter(trial.images.values())))
    while not ended.is_set():
        _, writer = await asyncio.open_connection(host, port)
        writer.write(whole[: draw.choice((1, 60, len(whole) // 2, len(whole) - 1, len(whole)))])
        await writer.drain()
        await asyncio.sleep(draw.uniform(0, 0.05))
        writer.close()
        trial.hung_up += 1
        await asyncio.sleep(0.05)
