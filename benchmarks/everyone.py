"""What every method costs beside plain CLIP: seconds of a training step and of an answered image, and memory.

    python -m benchmarks.everyone                      # on mini
    python -m benchmarks.everyone --shape vit-b-16     # random weights of that shape; long on a CPU

Every method trains a few steps on random images of ten classes and answers once, each in a process of its
own, so that memory is its own.
"""

import argparse
import json
import subprocess
import sys
from typing import Any

import torch

from benchmarks import models
from dpw.clip.backbone import Backbone
from dpw.methods import METHODS, configure
from dpw.runs.estimate import measure

CLASSES = 10


def one(name: str, shape: str) -> dict[str, Any]:
    """What one method costs, in this process."""
    torch.set_num_threads(1)
    below = Backbone.from_pretrained("mini") if shape == "mini" else models.backbone(shape)
    return measure(name, configure(name, clip=below.reference), below, CLASSES)._asdict()


def main() -> int:
    """Print a table, or with --one the figures of one method as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", default="mini", choices=["mini", *models.SHAPES])
    parser.add_argument("--one", choices=sorted(METHODS))
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one, options.shape)))
        return 0
    print(
        "| method | training step, s | an image, s | of plain CLIP | peak memory, GB |\n|---|---|---|---|---|"
    )
    plain = None
    for name in ["zero-shot", *sorted(set(METHODS) - {"zero-shot"})]:
        command = [sys.executable, "-m", "benchmarks.everyone", "--shape", options.shape, "--one", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (our own)
        if done.returncode:
            print(f"| {name} | could not be measured: {done.stderr.strip().splitlines()[-1]} | | | |")
            continue
        found = json.loads(done.stdout.splitlines()[-1])
        plain = plain or found["image"]
        memory = "-" if found["memory"] is None else f"{found['memory'] / 1e9:.2f}"
        ratio = found["image"] / plain
        print(f"| {name} | {found['step']:.4f} | {found['image']:.5f} | {ratio:.2f} | {memory} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
