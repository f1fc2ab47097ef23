"""Many rendered scenes kept on disk, because drawing is slower than reading."""

from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpw.benchmarks.mini.canvas import SIDE
from mini_world.scenes import draw_scene, render
from mini_world.vocabulary import Scene

CHUNK = 1000
SPLITS = {"train": 0, "seen": 1, "unseen": 2}


class Pool(NamedTuple):
    """Pictures `(N, SIDE, SIDE, 3)` and the codes of their scenes `(N, len(Scene._fields))`."""

    images: npt.NDArray[np.uint8]
    scenes: npt.NDArray[np.int16]


def _render_chunk(job: tuple[str, int, int, int]) -> Pool:
    """Render one chunk; every picture has its own generator, so the order of work does not matter."""
    split, seed, start, stop = job
    images = np.empty((stop - start, SIDE, SIDE, 3), dtype=np.uint8)
    scenes = np.empty((stop - start, len(Scene._fields)), dtype=np.int16)
    for row, index in enumerate(range(start, stop)):
        rng = np.random.default_rng([seed, SPLITS[split], index])
        scene = draw_scene(rng, unseen=split == "unseen")
        images[row], scenes[row] = render(scene, rng), scene
    return Pool(images, scenes)


def pool(folder: Path, split: str, size: int, seed: int, workers: int) -> Pool:
    """Read a pool from the folder, or render it there first."""
    stem = f"{split}-{size}-{seed}"
    files = folder / f"{stem}-images.npy", folder / f"{stem}-scenes.npy"
    if not files[1].is_file():
        folder.mkdir(parents=True, exist_ok=True)
        jobs = [(split, seed, start, min(start + CHUNK, size)) for start in range(0, size, CHUNK)]
        with get_context("spawn").Pool(workers) as processes:
            chunks = processes.map(_render_chunk, jobs, chunksize=1)
        np.save(files[0], np.concatenate([chunk.images for chunk in chunks]))
        np.save(files[1], np.concatenate([chunk.scenes for chunk in chunks]))
    return Pool(np.load(files[0], mmap_mode="r"), np.load(files[1]))
