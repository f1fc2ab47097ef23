"""How much a server loses against the model called directly, and whether it ever gives a wrong answer.

    python -m benchmarks.load [--requests 20000] [--seconds 20] [--rounds 3] [--processes 2]
        [--method dpw-ridge] [--folder FOLDER]

First the speed: the model called in Python with its best batch, then `dpw serve` with 32 clients and with
one, by one process and by two, in turns; the row of the median ratio is printed. Then the trial: as many
requests as asked for while the model folder is taught and forgotten, damaged and mended, and while other
clients hang up. Every answer must equal, to the digit, what `dpw predict` says with the state of
the model that the answer names.
"""

import argparse
import asyncio
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.load_client import Client, Trial, hang_up

CLIENTS = 32
BATCHES = (8, 16, 32, 64)
IMAGES = 96

DIRECT = """
import sys, time
from pathlib import Path
from dpw import ContinualCLIP
model, seconds = ContinualCLIP.from_pretrained(sys.argv[1]), float(sys.argv[3])
images = [path.read_bytes() for path in sorted(Path(sys.argv[2]).glob("*.png"))]
for batch in map(int, sys.argv[4].split(",")):
    model.predict(images[:batch], top=3)
    done, began, worked = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds:
        model.predict([images[(done + row) % len(images)] for row in range(batch)], top=3)
        done += batch
    print(batch, done / (time.perf_counter() - began), (time.process_time() - worked) / done, flush=True)
"""


def prepare(folder: Path, method: str) -> tuple[Path, Path]:
    """A model of three `mini` tasks, and images of four; used again where the folder has them."""
    import dpw

    model, images = folder / "model", folder / "images"
    if (model / "model.json").exists():
        return model, images
    tasks = dpw.load_benchmark("mini", order=["signs", "flags", "materials", "digits"], shots=4).tasks
    learner = dpw.ContinualCLIP.from_pretrained("mini", method, settings={"training.iterations": 20})
    for task in tasks[:3]:
        learner.learn(task)
    images.mkdir(parents=True)
    for task in tasks:
        for index in range(IMAGES // len(tasks)):
            task.test[index].image.save(images / f"{task.name}-{index:02d}.png")
    learner.save_pretrained(model)
    return model, images


def direct(model: Path, images: Path, seconds: float, processes: int) -> tuple[float, float]:
    """Images a second with the best batch, summed over processes, and processor seconds for an image."""
    words = [sys.executable, "-c", DIRECT, str(model), str(images), str(seconds), ",".join(map(str, BATCHES))]
    running = [
        subprocess.Popen(words, stdout=subprocess.PIPE, text=True)  # noqa: S603
        for _ in range(processes)
    ]
    found = [[line.split() for line in one.communicate()[0].splitlines()] for one in running]
    rates = [sum(float(one[row][1]) for one in found) for row in range(len(BATCHES))]
    return max(rates), min(float(row[2]) for one in found for row in one)


class Server:
    """`dpw serve` in a process of its own."""

    def __init__(self, model: Path, processes: int) -> None:
        """Start it and wait for its address."""
        words = [
            sys.executable,
            "-m",
            "dpw",
            "serve",
            str(model),
            "--port",
            "0",
            "--processes",
            str(processes),
        ]
        words += ["--look-seconds", "0.2"]
        self.process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)  # noqa: S603
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        found = re.search(r"at http://([^:]+):(\d+)", line)
        if found is None:
            raise SystemExit(line + self.process.stderr.read())
        self.host, self.port = found.group(1), int(found.group(2))
        self.lines: list[str] = []
        threading.Thread(target=lambda: self.lines.extend(self.process.stderr or ()), daemon=True).start()

    def worked(self) -> float:
        """Processor seconds of the server and its processes so far, where /proc tells them."""
        tree = [self.process.pid]
        for pid in tree:
            for path in Path(f"/proc/{pid}/task").glob("*/children"):
                tree += map(int, path.read_text().split())
        fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in tree]
        return sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> int:
        """End it as a system does; gives its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


async def speed(server: Server, images: Path, seconds: float, clients: int = CLIENTS) -> dict[str, float]:
    """Requests a second and latencies of clients that ask one image after another."""
    bodies = [path.read_bytes() for path in sorted(images.glob("*.png"))]
    times: list[float] = []
    in_time: list[bool] = []  # whether an answer came before the end
    until, worked = time.perf_counter() + seconds, server.worked()

    async def client(number: int) -> None:
        """One client."""
        async with Client(server.host, server.port) as one:
            turn = number
            while time.perf_counter() < until:
                began = time.perf_counter()
                status, _ = await one.predict(f"{turn}.png", bodies[turn % len(bodies)])
                assert status == 200, status
                ended = time.perf_counter()
                times.append(ended - began)
                in_time.append(ended <= until)
                turn += clients

    await asyncio.gather(*(client(number) for number in range(clients)))
    cuts = statistics.quantiles(times, n=100)
    cpu = (server.worked() - worked) / len(times)
    return {"rate": sum(in_time) / seconds, "cpu": cpu, "p50": cuts[49], "p95": cuts[94], "p99": cuts[98]}


def compare(model: Path, images: Path, seconds: float, rounds: int) -> list[str]:
    """A table of direct calls and the server, in turns: the round of the median ratio."""
    lines = [
        "| | images/s directly | requests/s served | ratio | CPU ms directly | served | p50, p95, p99 ms "
        "| one client, p50 ms |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for processes in (1, 2):
        found = []
        for _ in range(rounds):
            called, cpu = direct(model, images, seconds / len(BATCHES), processes)
            server = Server(model, processes)
            asyncio.run(speed(server, images, 2))
            served = asyncio.run(speed(server, images, seconds))
            served["alone"] = asyncio.run(speed(server, images, seconds / 8, clients=1))["p50"]
            server.stop()
            found.append((served["rate"] / called, called, cpu, served))
            print(f"{processes} process(es): {called:.1f} directly ({cpu:.4f} s), {served}", flush=True)
        ratio, called, cpu, served = sorted(found, key=lambda one: one[0])[len(found) // 2]
        cells = [f"{1000 * served[name]:.0f}" for name in ("p50", "p95", "p99")]
        speeds = f"{called:.0f} | {served['rate']:.0f} | {ratio:.2f}"
        numbers = f"{speeds} | {1000 * cpu:.1f} | {1000 * served['cpu']:.1f} | {', '.join(cells)}"
        numbers += f" | {1000 * served['alone']:.0f}"
        lines.append(f"| {processes} process{'es' if processes > 1 else ''} | {numbers} |")
    return lines


def try_hard(model: Path, images: Path, requests: int, processes: int) -> list[str]:
    """The trial; gives what happened in lines, or ends with what went wrong."""
    folder = Path(shutil.copytree(model, tempfile.mkdtemp(dir=model.parent), dirs_exist_ok=True))
    server, ended = Server(folder, processes), threading.Event()
    words = [sys.executable, "-m", "benchmarks.load_teacher", str(folder), str(images)]
    teacher = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)  # noqa: S603
    trial = Trial(images, requests)

    def listen() -> None:
        """Take the expected answers of every state as the teacher tells them."""
        for line in teacher.stdout or ():
            told = json.loads(line)
            trial.events[told["event"]] = trial.events.get(told["event"], 0) + 1
            if "answers" in told:
                trial.expected[told["model"]] = told["answers"]

    threading.Thread(target=listen, daemon=True).start()
    while not trial.expected:
        time.sleep(0.1)
        if teacher.poll() is not None:
            server.stop()
            raise SystemExit("the teacher ended before it began")

    async def run() -> None:
        """All clients, and those who hang up."""
        rude = asyncio.ensure_future(hang_up(server.host, server.port, trial, ended))
        await asyncio.gather(*(trial.client(server.host, server.port, n) for n in range(CLIENTS)))
        ended.set()
        await rude

    began = time.perf_counter()
    asyncio.run(run())
    seconds = time.perf_counter() - began
    teacher.send_signal(signal.SIGTERM)
    teacher.wait(120)
    time.sleep(0.5)
    code = server.stop()
    refusals = sum("refused" in line for line in server.lines)
    reloads = sum("now serving" in line for line in server.lines)
    lines = [*trial.verdict(), f"{seconds:.0f} s, server ended with code {code}"]
    lines.append(f"the server's log: {reloads} new states taken over, {refusals} refused")
    return lines


def main() -> int:
    """Measure, try, and say so."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--requests", type=int, default=20_000)
    options.add_argument("--seconds", type=float, default=20.0)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--processes", type=int, default=2)
    options.add_argument("--method", default="dpw-ridge")
    options.add_argument("--folder", type=Path, help="keep the model here, and use it again")
    given = options.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        os.environ.setdefault("DPW_CACHE", f"{folder}/cache")
        model, images = prepare(folder, given.method)
        if given.rounds:
            print("\n".join(compare(model, images, given.seconds, given.rounds)), flush=True)
        lines = try_hard(model, images, given.requests, given.processes) if given.requests else []
        print("\n".join(lines), flush=True)
    return int(any("WRONG" in line for line in lines))


if __name__ == "__main__":
    sys.exit(main())
