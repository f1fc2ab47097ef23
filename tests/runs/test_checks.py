"""What is looked at before anything is learned."""

import pytest

from dpw import load_benchmark
from dpw.data.pixels import PixelCache
from dpw.data.reference import ReferenceData
from dpw.methods import configure
from dpw.runs import checks


@pytest.fixture
def looked_at(monkeypatch):
    """The splits that were read, in order."""
    found = []
    monkeypatch.setattr(checks, "check_readable", lambda _, split, __: found.append(split))
    return found


def read(toy, method, seed, looked_at):
    """The names of the first images of the splits that a run reads, in its order."""
    benchmark, config = load_benchmark(toy / "toy.yaml"), configure(method, settings={"seed": seed})
    looked_at.clear()
    cache = PixelCache.__new__(PixelCache)  # nothing is read here
    checks.check_before_learning(benchmark, method, config, ReferenceData(), cache, lambda: False)
    return [split.where(0) for split in looked_at]


def test_every_split_is_read_by_every_run_and_two_seeds_begin_at_opposite_ends(toy, looked_at):
    one, other = (read(toy, "zero-shot", seed, looked_at) for seed in (1, 2))
    assert len(one) == sum(len(task.splits()) for task in load_benchmark(toy / "toy.yaml").tasks)
    assert one == other[::-1] != other


def test_the_methods_of_the_demonstration_begin_at_opposite_ends(toy, looked_at):
    assert read(toy, "dpw", 0, looked_at) == read(toy, "finetune", 0, looked_at)[::-1]
