"""Speed and size of exported models beside PyTorch, for docs/export.md.

    python -m benchmarks.export                     # ViT-B/32 of random weights, three tasks
    python -m benchmarks.export my-clip             # a model folder

One thread. Times are processor time, the best of several rounds that take turns.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch

from benchmarks import models
from dpw import ContinualCLIP
from dpw.data.images import Images
from dpw.serving.export import export, image_size

BATCHES, ROUNDS, TASKS, CLASSES = (1, 8), 7, 3, 10


def session(path: Path) -> Any:
    """A graph on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options)


def milliseconds(runs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The best time of each, taking turns."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(ROUNDS):
        for name, run in runs.items():
            began = time.process_time()
            run()
            best[name] = min(best[name], 1000 * (time.process_time() - began))
    return best


def main() -> None:
    """Export, then print a table."""
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        model = ContinualCLIP.from_pretrained(sys.argv[1], device="cpu")
    else:
        model = ContinualCLIP(models.learned("dpw", models.backbone("vit-b-32"), TASKS, CLASSES))
    folder = Path(tempfile.mkdtemp())
    whole = export(model, folder / "model.onnx")
    small = export(model, folder / "int8.onnx", int8=True)
    print(f"MB: ONNX {whole.stat().st_size / 1e6:.1f}, int8 {small.stat().st_size / 1e6:.1f}")
    graphs = {"ONNX": session(whole), "int8": session(small)}
    question = model.question(None)
    for batch in BATCHES:
        shape = (batch, 3, *image_size(model.method))
        pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
        asked = {"pixels": pixels, "among": np.array([-1])}

        def pytorch(pixels: Any = pixels) -> Any:
            """`predict` without reading files."""
            with torch.inference_mode():
                return model.method.logits(Images.of(torch.from_numpy(pixels)), question)

        runs = {"PyTorch": pytorch, **{k: lambda g=g, a=asked: g.run(None, a) for k, g in graphs.items()}}
        found = milliseconds(runs)
        print(f"batch {batch}: " + ", ".join(f"{name} {value:.1f} ms" for name, value in found.items()))


if __name__ == "__main__":
    main()
