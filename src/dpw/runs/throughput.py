"""What every method costs beside plain CLIP, on this machine, and the times that the paper prints."""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import NamedTuple

from dpw.clip.backbone import Backbone
from dpw.engine.memory import keep_freed_memory
from dpw.errors import DpwError
from dpw.methods import METHODS, configure
from dpw.runs.estimate import Measured, measure
from dpw.runs.published import THROUGHPUT

PLAIN = "zero-shot"
CLASSES = 10
# Inference on MTIL as the paper's throughput table prints it, on one RTX 4090.
PRINTED = {row.method: f"{row.seconds // 60}m {row.seconds % 60}s" for row in THROUGHPUT}
HEADER = ("method", "training step, s", "an image, ms", "of plain CLIP", "peak memory, GB", "paper, MTIL")

Load = Callable[[str], Backbone]


class Cost(NamedTuple):
    """What one method costs, or why nobody could measure it."""

    method: str
    measured: Measured | None
    problem: str = ""


def costs(model: str, load: Load = Backbone.from_pretrained) -> Iterator[Cost]:
    """Every method trains a few steps on noise of ten classes and answers; plain CLIP comes first.

    Each in a process of its own, so that memory is its own; `load(model)` gives the CLIP there, and so must
    be a function that another process can import.
    """
    fresh = multiprocessing.get_context("spawn")
    for name in (PLAIN, *sorted(set(METHODS) - {PLAIN})):
        with ProcessPoolExecutor(1, mp_context=fresh) as process:
            try:
                yield Cost(name, process.submit(_measured, name, model, load).result())
            except (BrokenProcessPool, DpwError, RuntimeError, MemoryError) as error:
                yield Cost(name, None, str(error).splitlines()[0] if str(error) else type(error).__name__)


def _measured(name: str, model: str, load: Load) -> Measured:
    """What one method costs in this process, which keeps freed memory as a command does."""
    keep_freed_memory()
    backbone = load(model)
    return measure(name, configure(name, clip=backbone.reference), backbone, CLASSES)


def cost_rows(found: Sequence[Cost]) -> list[list[str]]:
    """A header, and a row for each method; images are compared with those of the first one."""
    rows = [list(HEADER)]
    plain = found[0].measured if found else None
    for one in found:
        printed = PRINTED.get(one.method, "-")
        if one.measured is None:
            rows.append([one.method, f"not measured: {one.problem}", "-", "-", "-", printed])
            continue
        step, image, memory = one.measured
        ratio = "-" if plain is None else f"{image / plain.image:.2f}"
        size = "-" if memory is None else f"{memory / 1e9:.2f}"
        rows.append([one.method, f"{step:.4f}" if step else "-", f"{1000 * image:.3f}", ratio, size, printed])
    return rows
