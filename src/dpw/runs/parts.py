"""The parts of a run, as whoever hands them out sees them: nothing here needs torch."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from dpw.clip.preprocessing import Preprocessing
from dpw.clip.pretrained import find_clip
from dpw.data.pixels import PixelCache, cache_folder, check_readable
from dpw.errors import DpwError
from dpw.runs.config import RunConfig, load_run_benchmark


@dataclass(frozen=True)
class Part:
    """One task to learn or one test set to measure: its name and key, how big it is, whether it is done."""

    name: str
    key: str
    images: int
    done: bool


@dataclass(frozen=True)
class Parts:
    """What a run consists of; there is nothing to learn or measure apart where tasks need each other."""

    threads: int | None
    learn: Sequence[Part] = ()
    measure: Sequence[Part] = ()


def read_ahead(config: RunConfig, enough: Callable[[], bool]) -> None:
    """Decode images of a run into the cache until it is enough, so that workers find them there.

    One core is left to whoever prepares the workers. What is wrong with the images the run says when it
    begins.
    """
    with suppress(DpwError):
        folder = find_clip(config.model)
        if folder is None or enough():
            return
        with PixelCache(Preprocessing.from_folder(folder), cache_folder()) as cache:
            cache.workers = max(1, cache.workers - 1)
            for task in load_run_benchmark(config).tasks:
                for split in task.splits().values():
                    check_readable(cache, split, enough)
