"""Three toy tasks as image folders, a YAML benchmark over them, and a tiny CLIP: a whole run in a second."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

from dpw.engine.callbacks import TrainingCallback
from dpw.runs.config import RunConfig, RunOptions
from dpw.runs.run import start_run
from tests.helpers.checks import nonempty
from tests.helpers.tiny_clip import save_tiny

TASKS = {"birds": ["crow", "swan", "robin"], "metals": ["rust", "gold"], "signs": ["stop", "yield"]}
SIZES = {"train": 8, "val": 3, "test": 4}


def make_toy(folder: Path) -> Path:
    """Write the CLIP, the images and the benchmark; gives the folder."""
    save_tiny(folder / "clip")
    noise = np.random.default_rng(0)
    for number, (task, classes) in enumerate(TASKS.items()):
        for split, count in SIZES.items():
            for label, name in enumerate(classes):
                base = np.random.default_rng(100 * number + label).integers(0, 256, (6, 6, 3))
                target = folder / "data" / task / split / name
                target.mkdir(parents=True)
                for index in range(count):
                    pixels = np.clip(base + noise.normal(0, 30, (6, 6, 3)) + 40 * number, 0, 255)
                    image = Image.fromarray(pixels.astype(np.uint8)).resize((20, 18))
                    image.save(target / f"{index}.png")
    tasks = "".join(f"  - folder: data/{task}\n" for task in TASKS)
    (folder / "toy.yaml").write_text(f"name: toy\nsetting: task-incremental\ntasks:\n{tasks}")
    return folder


def config(folder: Path, **changes: object) -> RunConfig:
    """A small run over the toy benchmark."""
    settings = {"prefix_length": 2, "adapter_rank": 4, "training.epochs": 2, "training.batch_size": 4}
    values = {"benchmark": str(folder / "toy.yaml"), "model": str(folder / "clip"), "settings": settings}
    return RunConfig(**(values | changes))


def run(folder: Path, output: Path, options: RunOptions | None = None, **changes: object) -> dict:
    """Carry the run out."""
    return start_run(config(folder, **changes), output, options or RunOptions(checkpoint_seconds=0))


class StopAfter(TrainingCallback):
    """Asks to stop once a number of steps was seen."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def on_step(self, task: str, epoch: int, epochs: int, step: int, loss: float) -> None:
        self.left -= 1

    def __call__(self) -> bool:
        return self.left <= 0

    def options(self, checkpoint_seconds: float = 1e9) -> RunOptions:
        return RunOptions(checkpoint_seconds, callback=self, should_stop=self)


def outcome(output: Path) -> dict[str, bytes]:
    """Everything a run decides, byte for byte; only times and their checksum are left out."""
    files = [*nonempty(output.glob("model/*.safetensors")), *nonempty(output.glob("rows/*.json"))]
    files += [output / "metrics.jsonl", output / "accuracy.csv", output / "model" / "model.json"]
    found = {str(path.relative_to(output)): path.read_bytes() for path in files}
    results = json.loads((output / "results.json").read_text())
    for key in ("seconds", "checksum"):
        results.pop(key)
    return found | {"results.json": json.dumps(results).encode()}
