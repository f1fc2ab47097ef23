"""Exported models beside PyTorch, for docs/export.md: equal answers, speed and size.

    python -m benchmarks.export mini [METHOD ...]   # five tasks of `mini`, all of their test images
    python -m benchmarks.export vit-b-32            # random weights, three tasks: speed and size only
    python -m benchmarks.export my-clip             # a model folder: speed and size only

One thread. Times are processor time, the best of several rounds in which all take turns.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch

from benchmarks import models
from dpw import ContinualCLIP, load_benchmark
from dpw.data.images import Images
from dpw.engine.invariance import BatchInvariance
from dpw.serving.export import export, image_size

METHODS = ("dpw-ridge", "dpw", "dpw-reduced", "diki", "zero-shot", "finetune")
BATCHES, ROUNDS, TASKS, CLASSES, ITERATIONS = (1, 16), 7, 3, 10, 40
ALL = np.array([-1])


def session(path: Path) -> Any:
    """A graph on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options)


def by_pytorch(model: ContinualCLIP, pixels: np.ndarray) -> np.ndarray:
    """Logits as `predict` computes them, without reading files."""
    with torch.inference_mode(), BatchInvariance():
        found: np.ndarray = model.method.logits(
            Images.of(torch.from_numpy(pixels)), model.question(None)
        ).numpy()
    return found


def by_graph(graph: Any, pixels: np.ndarray) -> np.ndarray:
    """Logits of an exported model."""
    found: np.ndarray = graph.run(["logits"], {"pixels": pixels, "among": ALL})[0]
    return found


def milliseconds(runs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The best time of each, taking turns."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(ROUNDS):
        for name, run in runs.items():
            began = time.process_time()
            run()
            best[name] = min(best[name], 1000 * (time.process_time() - began))
    return best


def speed_and_size(model: ContinualCLIP, folder: Path) -> dict[str, Any]:
    """Export, print times an image and sizes; gives the graphs."""
    paths = {
        "ONNX": export(model, folder / "model.onnx"),
        "int8": export(model, folder / "int8.onnx", int8=True),
    }
    graphs = {name: session(path) for name, path in paths.items()}
    sizes = ", ".join(f"{name} {path.stat().st_size / 1e6:.1f} MB" for name, path in paths.items())
    print(f"{model.method.name}: {sizes}", flush=True)
    for batch in BATCHES:
        shape = (batch, 3, *image_size(model.method))
        pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
        runs: dict[str, Callable[[], Any]] = {"PyTorch": lambda p=pixels: by_pytorch(model, p)}
        runs |= {name: lambda g=graph, p=pixels: by_graph(g, p) for name, graph in graphs.items()}
        found = {name: value / batch for name, value in milliseconds(runs).items()}
        told = ", ".join(f"{name} {value:.2f}" for name, value in found.items())
        print(f"{model.method.name}: ms an image in batches of {batch}: {told}", flush=True)
    return graphs


def answers(model: ContinualCLIP, tasks: Sequence[Any], graphs: dict[str, Any]) -> None:
    """Print how far the graphs answer as PyTorch does on all test images, and how often each is right."""
    sizes = [len(task.classes) for task in tasks]
    truth = np.array([sum(sizes[:n]) + one.label for n, task in enumerate(tasks) for one in task.test])
    preprocess = model.method.backbone.preprocessing.pixels
    pixels = np.stack([preprocess(one.image) for task in tasks for one in task.test])
    parts = np.array_split(pixels, max(1, len(pixels) // 64))
    expected = np.concatenate([by_pytorch(model, part) for part in parts])
    print(f"{model.method.name}: {len(truth)} test images, PyTorch {_right(expected, truth)}", flush=True)
    for name, graph in graphs.items():
        found = np.concatenate([by_graph(graph, part) for part in parts])
        equal = 100 * (found.argmax(1) == expected.argmax(1)).mean()
        print(
            f"{model.method.name}: {name} {equal:.2f} % equal answers, logits differ by at most "
            f"{np.abs(found - expected).max():.1e}, {_right(found, truth)}",
            flush=True,
        )


def _right(logits: np.ndarray, truth: np.ndarray) -> str:
    """Accuracy in words."""
    return f"accuracy {100 * (logits.argmax(1) == truth).mean():.2f} %"


def main() -> None:
    """Measure what was asked for."""
    torch.set_num_threads(1)
    wanted, methods = sys.argv[1], sys.argv[2:] or METHODS
    with tempfile.TemporaryDirectory() as folder:
        if wanted == "vit-b-32":
            learned = models.learned("dpw", models.backbone("vit-b-32"), TASKS, CLASSES)
            speed_and_size(ContinualCLIP(learned), Path(folder))
        elif wanted != "mini":
            speed_and_size(ContinualCLIP.from_pretrained(wanted, device="cpu"), Path(folder))
        else:
            tasks = load_benchmark("mini").tasks
            for name in methods:
                shorter = {} if name == "zero-shot" else {"training.iterations": ITERATIONS}
                model = ContinualCLIP.from_pretrained("mini", name, device="cpu", settings=shorter)
                for task in tasks:
                    model.learn(task)
                answers(model, tasks, speed_and_size(model, Path(folder)))


if __name__ == "__main__":
    main()
