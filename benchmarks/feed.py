"""How much faster is the second epoch fed than the first, and does memory stay flat?

Run `python benchmarks/feed.py` (photographs are generated) or `python benchmarks/feed.py FOLDER` with JPEG
files of your own. Everything is measured side by side in one run and told as ratios: seconds depend on the
machine, ratios hardly. Exit code 1 when the second epoch is less than 5 times as fast or memory grows with
the dataset.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

from dpw.clip.preprocessing import Preprocessing
from dpw.data.pixels import PixelCache
from dpw.data.task import Split

BATCH = 64
SPEED_AT_LEAST = 5.0
MEMORY_AT_MOST = 1.25


def make_photographs(folder: Path, count: int) -> list[Path]:
    """Write JPEG files of the usual size (500×375) with smooth shapes and fine grain."""
    paths = []
    for index in range(count):
        generator = np.random.default_rng(index)
        coarse = Image.fromarray(generator.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((500, 375)).filter(ImageFilter.GaussianBlur(3)), dtype=np.int16)
        grain = generator.normal(0, 6, smooth.shape).astype(np.int16)
        path = folder / f"{index:05d}.jpg"
        Image.fromarray(np.clip(smooth + grain, 0, 255).astype(np.uint8)).save(path, quality=90)
        paths.append(path)
    return paths


def feed(cache: PixelCache, split: Split, seed: int) -> float:
    """Seconds for one epoch in shuffled batches."""
    order = list(range(len(split)))
    random.Random(seed).shuffle(order)
    start = time.perf_counter()
    for place in range(0, len(order), BATCH):
        cache.pixels(split, order[place : place + BATCH])
    return time.perf_counter() - start


def epochs(paths: list[Path], workers: int | None) -> dict[str, float]:
    """First and second epoch through a fresh cache, and one without any cache."""
    split = Split.from_files(paths, [0] * len(paths))
    with tempfile.TemporaryDirectory() as folder:
        cache = PixelCache(Preprocessing(), Path(folder), workers=workers)
        first, second = feed(cache, split, 1), feed(cache, split, 2)
        plain = feed(PixelCache(Preprocessing(), None, workers=workers), split, 2)
    return {"first / second": first / second, "first / without cache": first / plain}


def peak_memory(paths: list[Path], repeats: int) -> int:
    """Peak memory of a fresh process that feeds two epochs of `repeats` copies of the list."""
    code = (
        "import json, resource, sys, tempfile, pathlib; sys.path.insert(0, sys.argv[1]); import feed\n"
        "content = json.load(open(sys.argv[2]))\n"
        "split = feed.Split.from_files(content, [0] * len(content))\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    cache = feed.PixelCache(feed.Preprocessing(), pathlib.Path(folder))\n"
        "    feed.feed(cache, split, 1), feed.feed(cache, split, 2)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    with tempfile.NamedTemporaryFile("w", suffix=".json") as listing:
        json.dump([str(path) for path in paths[: len(paths) // 8 * repeats]], listing)
        listing.flush()
        command = [sys.executable, "-c", code, str(Path(__file__).parent), listing.name]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)  # noqa: S603


def main() -> int:
    """Measure and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="folder with JPEG files")
    parser.add_argument("--count", type=int, default=800)
    parser.add_argument("--workers", type=int, help="decoding threads")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as generated:
        if options.folder is None:
            paths = make_photographs(Path(generated), options.count)
        else:
            paths = sorted(options.folder.rglob("*.jpg"))[: options.count]
        result = epochs(paths, options.workers)
        result["memory of 8x the images / of 1x"] = peak_memory(paths, 8) / peak_memory(paths, 1)
    print(
        json.dumps(
            {"images": len(paths)} | {name: round(value, 2) for name, value in result.items()}, indent=2
        )
    )
    good = result["first / second"] >= SPEED_AT_LEAST
    return 0 if good and result["memory of 8x the images / of 1x"] <= MEMORY_AT_MOST else 1


if __name__ == "__main__":
    sys.exit(main())
