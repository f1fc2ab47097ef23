"""Weights of tokens by block."""

import pytest

from dpw import analysis
from dpw.analysis import Subject
from dpw.data.pixels import PixelCache
from dpw.errors import InputError
from tests.helpers.checks import nonempty
from tests.helpers.toy_methods import learn, toy_method, toy_task


def toy_subject(preset: str, *tasks: str) -> Subject:
    """A model over toy tasks to look into."""
    method = toy_method("dpw", preset, adapter_rank=4)
    for name in tasks:
        learn(method, toy_task(name))
    cache = PixelCache(method.backbone.preprocessing, folder=None)
    return Subject(method, [toy_task(name) for name in tasks], cache, images=4)


def test_weights_by_block_tell_learned_from_unseen(subject):
    data = analysis.weight_distribution(subject, learned=2)
    assert data.learned == [True, True, False]
    for total, share in nonempty(zip(data.total, data.prefix_share, strict=True)):
        assert all(value >= 0 for value in total)
        assert all(0 <= value <= 1 for value in share)
    assert any(value > 0 for row in data.adapter for value in row)


def test_cosines_of_prefix_and_adapter_are_cosines(subject):
    data = analysis.output_cosines(subject)
    assert data.tasks == subject.method.task_names
    assert not data.learned_uniformly
    assert all(-1 <= value <= 1 for row in nonempty([*data.weighted, *data.uniform]) for value in row)


def test_a_model_learned_uniformly_stands_beside_as_in_the_paper():
    own, other = (
        toy_subject("default", "aircraft", "dtd"),
        toy_subject("ablation/weight-uniform", "aircraft", "dtd"),
    )
    beside, alone = analysis.output_cosines(own, other), analysis.output_cosines(own)
    assert beside.learned_uniformly
    assert beside.weighted == alone.weighted
    assert beside.uniform == analysis.output_cosines(other).uniform != alone.uniform
    with pytest.raises(InputError, match="has learned other tasks"):
        analysis.output_cosines(own, toy_subject("ablation/weight-uniform", "dtd"))
