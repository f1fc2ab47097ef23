"""How much faster than the straightforward way, and how far from plain CLIP: `make bench`.

Every figure is a ratio of two ways measured in turn in this process, by CPU time with one thread. Results are
printed as Markdown and go to a folder as JSON and plots; exit code 1 when a target is missed on ViT-B shapes.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from benchmarks.growth import growth, plot
from benchmarks.measure import Figure, Way, figure, in_turn, measured_on, peak_memory
from benchmarks.straightforward import LinearMapsByOneDNN, Straightforward

from benchmarks import families, measure, models
from dpw.clip.first_block import KeptFirstBlock
from dpw.data.images import Images
from dpw.data.pixels import PixelCache
from dpw.data.split import Split
from dpw.engine.feeding import SplitImages
from dpw.methods import Candidates
from dpw.methods.feature_cache import FeatureCache

REPEATS = 3
TRAINING = {10: 2.1, 100: 3.3, 400: 4.5}  # classes and the least ratio
AT_ONCE = 100  # prompts of 77 tokens whose activations fit in memory
TOWERS = ("plain", "dpw", "dpw-reduced", "diki", "moe-adapters")
OFFICIAL = {"decision": "batch-vote", "text_weight": "exact", "strict_filter": True}


def training(shape: str, batch: int, counts: Sequence[int] = tuple(TRAINING)) -> Iterator[Figure]:
    """A training step: the straightforward way, ours, and for few classes four more ways."""
    backbone = models.backbone(shape)
    pixels = models.photographs(shape, batch)
    for classes in counts:
        method = models.start_training(models.learned("dpw", backbone, 1, classes))
        ways = training_ways(method, pixels, torch.arange(batch) % classes)
        if classes != min(TRAINING):
            ways = {name: ways[name] for name in ("ours", "straightforward")}
        found = in_turn(ways, REPEATS)
        what = f"training step, batch {batch}, {classes} classes:"
        least = None if shape == "tiny" else TRAINING.get(classes)
        slow = found["straightforward"]
        yield figure(shape, f"{what} straightforward / ours", slow, found["ours"], least=least)
        if classes == min(TRAINING):
            yield figure(shape, f"{what} straightforward by oneDNN / ours", found["by oneDNN"], found["ours"])
            yield figure(shape, f"{what} lean straightforward / ours", found["lean"], found["ours"])
            yield figure(shape, f"{what} checkpointed / ours", found["checkpointed"], found["ours"])
            again = found["first block kept"]
            yield figure(shape, f"{what} ours / ours with images seen before", found["ours"], again)


def training_ways(method: models.Any, pixels: torch.Tensor, labels: torch.Tensor) -> dict[str, Way]:
    """Ways to make the same training step."""
    plain, lean = Straightforward(method), Straightforward(method, lean=True)

    def by_onednn() -> None:
        with LinearMapsByOneDNN():
            plain.step(pixels, labels, AT_ONCE)

    def ours(checkpointing: bool = False) -> None:
        method.backbone.gradient_checkpointing = checkpointing
        method(pixels, labels).backward()
        method.backbone.gradient_checkpointing = False

    shape = method.backbone.image_shape
    kept = KeptFirstBlock(len(pixels), shape.tokens * shape.width)

    def seen_before() -> None:
        method.backbone.first_block = kept
        ours()
        method.backbone.first_block = None

    return {
        "ours": ours,
        "straightforward": lambda: plain.step(pixels, labels, AT_ONCE),
        "by oneDNN": by_onednn,
        "lean": lambda: lean.step(pixels, labels, AT_ONCE),
        "checkpointed": lambda: ours(checkpointing=True),
        "first block kept": seen_before,
    }


def threads(shape: str, batch: int) -> Iterator[Figure]:
    """Wall time of a training step with one thread against two; only a quiet machine can tell."""
    method = models.start_training(models.learned("dpw", models.backbone(shape), 1, 10))
    pixels, labels = models.photographs(shape, batch), torch.arange(batch) % 10
    found: dict[int, list[float]] = {1: [], 2: []}
    for repeat in range(-1, REPEATS):  # the first round only warms up
        for count in found:
            torch.set_num_threads(count)
            began = time.perf_counter()
            method(pixels, labels).backward()
            if repeat >= 0:
                found[count].append(time.perf_counter() - began)
    torch.set_num_threads(1)
    least = None if shape == "tiny" else 1.7
    what = f"wall time of a training step, batch {batch}, 10 classes: one thread / two"
    yield figure(shape, what, found[1], found[2], least=least)


def memory(shape: str, batch: int, counts: Sequence[int]) -> Iterator[Figure]:
    """Peak memory of a process that makes one training step; 400 classes fit no usual machine."""
    most = None if shape == "tiny" else 0.55
    for classes in [count for count in counts if count <= AT_ONCE]:
        peaks = {
            way: [float(peak_memory("step", way, shape, batch, classes))]
            for way in ("ours", "straightforward", "lean", "checkpointed")
        }
        what = f"peak memory of training, batch {batch}, {classes} classes"
        yield figure(
            shape, f"{what}: ours / straightforward", peaks["ours"], peaks["straightforward"], most=most
        )
        yield figure(shape, f"{what}: ours / lean straightforward", peaks["ours"], peaks["lean"])
        yield figure(shape, f"{what}: checkpointed / ours", peaks["checkpointed"], peaks["ours"])


def towers(shape: str, batch: int) -> Iterator[Figure]:
    """The image tower of each method against plain CLIP's."""
    backbone = models.backbone(shape)
    pixels = models.photographs(shape, batch)
    ways: dict[str, Callable[[], object]] = {}
    for name in TOWERS:
        adaptation = models.image_adaptation(name, backbone, batch)
        ways[name] = lambda a=adaptation: backbone.encode_images(pixels, a)
    with torch.inference_mode():
        found = in_turn(ways, 15)
    most = {"dpw": 1.15, "dpw-reduced": 1.10} if shape != "tiny" else {}
    for name in TOWERS[1:]:
        what = f"image tower forward, batch {batch}: {name} / plain CLIP"
        yield figure(shape, what, found[name], found["plain"], most=most.get(name))
    peaks = {name: [float(peak_memory("tower", name, shape, batch))] for name in TOWERS}
    for name in TOWERS[1:]:
        what = f"peak memory of the image tower forward, batch {batch}: {name} / plain CLIP"
        yield figure(shape, what, peaks[name], peaks["plain"])


def matrix(shape: str, images: int, classes: int) -> Iterator[Figure]:
    """The T×T accuracy matrix, `images` test images a task, by each way.

    One row of the straightforward way is measured and counted T times: its rows cost the same.
    """
    backbone = models.backbone(shape)
    for tasks in (1, 3, 11):
        sets = [models.domain(shape, task, images) for task in range(tasks)]
        method = models.learned("dpw", backbone, 0, classes, **OFFICIAL)

        def ours(method: models.Any = method, sets: list[torch.Tensor] = sets) -> None:
            models.forget_all(method)
            method.feature_cache = FeatureCache()
            for row in range(len(sets)):
                models.add_domain_task(method, shape, row, classes)
                for task, pixels in enumerate(sets):
                    keys = [f"{task}-{image}" for image in range(len(pixels))]
                    question = Candidates.among(models.class_group(task, classes))
                    method.logits(Images.of(pixels, keys), question)

        def plain(method: models.Any = method, sets: list[torch.Tensor] = sets) -> None:
            way = Straightforward(method)
            for task, pixels in enumerate(sets):
                way.task_incremental(pixels, method.tokens(models.class_group(task, classes)))

        with torch.inference_mode():
            found = in_turn({"ours": ours, "plain": plain}, REPEATS)
        least = 8.0 if tasks == 11 and shape != "tiny" else None
        what = f"{tasks}×{tasks} matrix, {images} images and {classes} classes a task: straightforward / ours"
        yield figure(shape, what, found["plain"], found["ours"], least=least, factor=tasks)


def class_incremental(shape: str, classes: int) -> Iterator[Figure]:
    """One image among the classes of 1, 3 and 11 learned tasks."""
    backbone = models.backbone(shape)
    pixels = models.photographs(shape, 1)
    for tasks in (1, 3, 11):
        exact = models.learned("dpw", backbone, tasks, classes, **OFFICIAL)
        grid = models.learned("dpw", backbone, tasks, classes)
        plain = Straightforward(exact)
        groups = [models.class_group(task, classes) for task in range(tasks)]
        tokens = [exact.tokens(group) for group in groups]
        question = Candidates.learned(groups)

        def exactly(method: models.Any = exact, question: Candidates = question) -> None:
            method.answers.texts.clear()
            method.logits(Images.of(pixels), question)

        with torch.inference_mode():
            grid.logits(Images.of(pixels), question)
            found = in_turn(
                {
                    "cached": lambda m=grid, q=question: m.logits(Images.of(pixels), q),
                    "exact": exactly,
                    "plain": lambda p=plain, t=tokens: p.class_incremental(pixels, t),
                },
                REPEATS,
            )
        what = f"one image among {tasks} tasks of {classes} classes: straightforward /"
        goals = (15.0, 100.0) if tasks == 11 and classes >= 100 and shape != "tiny" else (None, None)
        yield figure(shape, f"{what} ours exact", found["plain"], found["exact"], least=goals[0])
        yield figure(shape, f"{what} ours with cached texts", found["plain"], found["cached"], least=goals[1])


def flatness(shape: str, batch: int) -> Iterator[Figure]:
    """Class-incremental cost of an image with 50 learned tasks against one, texts being cached."""
    backbone = models.backbone(shape)
    pixels = models.photographs(shape, batch)
    ways: dict[str, Callable[[], object]] = {}
    with torch.inference_mode():
        for tasks in (1, 50):
            method = models.learned("dpw", backbone, tasks, 5)
            question = Candidates.learned([models.class_group(task, 5) for task in range(tasks)])
            method.logits(Images.of(pixels), question)
            ways[str(tasks)] = lambda m=method, q=question: m.logits(Images.of(pixels), q)
        found = in_turn(ways, 5)
    what = f"image in a batch of {batch}, texts cached: 50 learned tasks / 1"
    yield figure(shape, what, found["50"], found["1"], most=1.10 if shape != "tiny" else None)


def feeding(shape: str, batch: int) -> Iterator[Figure]:
    """Waiting for images as a share of an epoch of training, pixels being cached as after a first epoch."""
    method = models.start_training(models.learned("dpw", models.backbone(shape), 1, 10))
    size = models.SHAPES[shape].image_size
    pictures = np.random.default_rng(0).integers(0, 256, (2 * batch, size, size, 3), dtype=np.uint8)
    split = Split.from_arrays(pictures, [row % 10 for row in range(2 * batch)], "noise")
    with tempfile.TemporaryDirectory() as folder:
        cache = PixelCache(method.backbone.preprocessing, Path(folder))
        source = SplitImages(split, cache, method.backbone.device, batch)
        list(source.batches())
        waited = in_turn({"feed": lambda: list(source.batches())}, 3)["feed"]
        pixels, labels = next(iter(source.batches()))
        worked = in_turn({"step": lambda: [method(pixels, labels).backward() for _ in range(2)]}, 3)["step"]
    count = min(len(waited), len(worked))
    what = f"waiting for images / training steps, batch {batch}, no worker"
    yield figure(shape, what, waited[:count], worked[:count])


def sections(shape: str, quick: bool, counts: Sequence[int]) -> dict[str, Iterator[Figure]]:
    """Everything by name, in sizes that fit the shape; nothing is measured before it is asked for."""
    batch = 32
    return {
        "towers": towers(shape, batch // 4),
        "class_incremental": class_incremental(shape, 20 if quick else 100),
        "flatness": flatness(shape, 16),
        "training": training(shape, batch, counts),
        "matrix": matrix(shape, 8, 20 if quick else 50),
        "memory": memory(shape, batch, counts),
        "threads": threads(shape, batch),
        "feeding": feeding(shape, batch),
        "families": families.ratios(shape, 8, 20 if quick else 100, REPEATS),
    }


def count(text: str) -> int:
    """A number of classes from the command line."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of classes: give 1 or more")
    return int(text)


def main() -> int:
    """Measure, tell, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", nargs="+", default=list(models.SHAPES), choices=list(models.SHAPES))
    parser.add_argument("--quick", action="store_true", help="fewer classes")
    parser.add_argument("--only", nargs="+", choices=[*sections("tiny", True, ()), "growth"])
    parser.add_argument(
        "--classes", nargs="+", type=count, default=list(TRAINING), help="of the training step and its memory"
    )
    parser.add_argument("--budget", type=float, help="CPU seconds for one figure before it is not repeated")
    parser.add_argument("--output", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    measure.BUDGET = options.budget or measure.BUDGET
    options.output.mkdir(parents=True, exist_ok=True)
    figures: list[Figure] = []
    print(f"{measured_on()}\n")
    print("| shape | ratio | median | spread | target | reached |\n|---|---|---|---|---|---|")
    for shape in options.shapes:
        for name, section in sections(shape, options.quick, options.classes).items():
            if options.only and name not in options.only:
                continue
            for found in section:
                print(found.line(), flush=True)
                figures.append(found)
                write(options.output / f"{shape}.json", [one for one in figures if one.shape == shape])
    if not options.only or "growth" in options.only:
        for shape in options.shapes:
            growth(shape, options.output)
        plot(options.output)
    return int(any(one.reached is False for one in figures))


def write(path: Path, figures: list[Figure]) -> None:
    """Keep the figures with what they were measured on."""
    content = {
        "measured": time.strftime("%Y-%m-%d"),
        "machine": measured_on(),
        "figures": [one.as_json() for one in figures],
    }
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
