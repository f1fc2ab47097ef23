"""Teaches, damages, mends and forgets in a model folder while it is served; tells what each state answers."""

import json
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import dpw
from dpw.serving.served import revision_of
from dpw.storage.model_folder import remove_task
from dpw.storage.model_json import FILE

SECONDS = 2.0  # between two changes


def tell(event: str, folder: Path | None = None, images: Path | None = None) -> None:
    """Write one event as a line of JSON, with all answers of the folder's state if it is a good one."""
    told: dict[str, Any] = {"event": event}
    if folder is not None and images is not None:
        learner = dpw.ContinualCLIP.from_pretrained(folder)
        answers = {}
        for path in sorted(images.glob("*.png")):  # one by one, as `dpw predict FILE` does
            answer = learner.predict(path, top=3).as_json()
            answers[path.stem] = {key: value for key, value in answer.items() if key != "image"}
        told |= {"model": revision_of(folder), "answers": answers}
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def damage(folder: Path, draw: random.Random) -> tuple[Path, bytes]:
    """Cut off or flip a byte of some file; gives what mends it."""
    path = draw.choice([folder / FILE, *sorted(folder.glob("*.safetensors"))])
    whole = path.read_bytes()
    changed = bytearray(whole)
    changed[draw.randrange(len(whole))] ^= 1 + draw.randrange(255)
    path.write_bytes(bytes(changed) if draw.random() < 0.5 else whole[: draw.randrange(len(whole))])
    return path, whole


def main() -> None:
    """Change the folder until somebody ends this, then finish the round, so that every state is told."""
    folder, images = Path(sys.argv[1]), Path(sys.argv[2])
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    tell("start", folder, images)
    draw, task = random.Random(0), dpw.load_benchmark("mini", order=["digits"], shots=2).tasks[0]
    turn = 0
    while not asked:
        turn += 1
        learner = dpw.ContinualCLIP.from_pretrained(folder)
        learner.learn(task, seed=turn % 5)
        learner.save_pretrained(folder)
        tell("taught", folder, images)
        time.sleep(SECONDS)
        path, whole = damage(folder, draw)
        tell("damaged")
        time.sleep(SECONDS)
        path.write_bytes(whole)
        tell("mended")
        time.sleep(SECONDS)
        remove_task(folder, task.name)
        tell("forgotten", folder, images)
        time.sleep(SECONDS)


if __name__ == "__main__":
    main()
