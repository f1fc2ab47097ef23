"""A model as one file that runs without dpw: ONNX, or a program of `torch.export` (.pt2)."""

import io
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import nn

from dpw.errors import InputError
from dpw.learner import ContinualCLIP
from dpw.methods.base import Method
from dpw.methods.graphs.texts import ALL
from dpw.methods.graphs.whole import graph_of
from dpw.methods.parts.weighted import WeightedAnswers
from dpw.serving.export_onnx import onnx_bytes, quiet, require_onnx
from dpw.storage import files

FORMATS = (".onnx", ".pt2")
OWN = b"class_tasks"  # stands in the metadata of every exported file, so that no other is ever replaced
EXAMPLE_IMAGES = 3  # any number but one, which tracing would take for a constant


def export(
    model: ContinualCLIP, path: str | Path, *, int8: bool = False, all_classes_only: bool = False
) -> Path:
    """Write a model as one graph for all its tasks and for mixed batches, which runs without dpw.

    Args:
        model: a model that has learned something.
        path: where to write; `.onnx` or `.pt2` says which format.
        int8: quantise the weights (ONNX only): a quarter of the size, and nearly the same answers.
        all_classes_only: leave the questions within single tasks out, which makes files of `dpw` and `diki`
            models with many tasks much smaller.

    Returns:
        The path.

    Raises:
        InputError: nothing is learned, the method cannot be exported, the ending is unknown, or an extra
            is missing.
        StorageError: the file cannot be written.

    Example:
        >>> from dpw import ContinualCLIP
        >>> from dpw.serving.export import export
        >>> export(ContinualCLIP.from_pretrained("mini"), "model.txt")
        Traceback (most recent call last):
        ...
        dpw.errors.InputError: model.txt: the file's ending says what to write; give .onnx or .pt2
    """
    path = Path(path)
    if path.suffix not in FORMATS:
        raise InputError(f"{path}: the file's ending says what to write; give {' or '.join(FORMATS)}")
    if path.is_dir():
        raise InputError(f"{path} is a folder: give a file to write")
    if int8 and path.suffix != ".onnx":
        raise InputError(f"{path}: 8-bit weights are for ONNX; give a file that ends in .onnx")
    if path.suffix == ".onnx":
        require_onnx()
    model.question(None)  # refuses a model that has learned nothing
    files.refuse_foreign_file(path, OWN)
    method, device = model.method.eval(), model.method.backbone.device
    method.to("cpu")
    try:
        files.write_bytes(path, _content(method, path.suffix, int8, by_task=not all_classes_only))
    finally:
        method.to(device)
    return path


def _content(method: Method, suffix: str, int8: bool, by_task: bool) -> bytes:
    """The bytes of the file."""
    with torch.no_grad():
        graph: Any = graph_of(method, by_task)
        program = _traced(graph, method, by_task)
    inputs = ["pixels", "among"] if by_task else ["pixels"]
    about = {**description(method, graph.names), "inputs": inputs, "int8": int8}
    stored = {name: json.dumps(value) for name, value in about.items()}
    if suffix == ".onnx":
        return onnx_bytes(program, inputs, list(graph.names), stored, int8)
    buffer = io.BytesIO()
    with quiet():
        torch.export.save(
            program, buffer, extra_files={f"{name}.json": text for name, text in stored.items()}
        )
    return buffer.getvalue()


def _traced(graph: nn.Module, method: Method, by_task: bool) -> torch.export.ExportedProgram:
    """The graph with a free number of images."""
    height, width = image_size(method)
    pixels = torch.zeros(EXAMPLE_IMAGES, 3, height, width, dtype=torch.uint8)
    given = (pixels, torch.tensor([ALL])) if by_task else (pixels,)
    batch = {0: torch.export.Dim("batch", min=1)}
    with quiet():
        return torch.export.export(graph, given, dynamic_shapes=(batch, None)[: len(given)])


def image_size(method: Method) -> tuple[int, int]:
    """Height and width of the pixels that the image tower takes."""
    side = method.backbone.clip.config.vision_config.image_size
    return (side, side) if isinstance(side, int) else (side[0], side[1])


def description(method: Method, outputs: tuple[str, ...]) -> dict[str, Any]:
    """What stands in the metadata beside the graph: names, preprocessing and thresholds, as plain values."""
    preprocessing = method.backbone.preprocessing
    found = {
        "dpw": version("dpw"),
        "method": method.name,
        "clip": Path(method.backbone.reference).name,
        "tasks": method.task_names,
        "classes": [name for task in method.tasks for name in task.classes],
        "class_tasks": [index for index, task in enumerate(method.tasks) for _ in task.classes],
        "preprocessing": {
            "resize": preprocessing.size,
            "crop": preprocessing.crop,
            "resample": preprocessing.resample,
        },
        "outputs": list(outputs),
    }
    if isinstance(method.answers, WeightedAnswers):
        found["gates"] = method.answers.router.gates().tolist()
    return found
