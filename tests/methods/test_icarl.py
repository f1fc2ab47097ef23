"""iCaRL: which images are remembered and replayed."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from dpw.methods.parts.exemplars import herding
from tests.helpers.toy_methods import SMALL, Trainer, learn, reload, toy_method, toy_task


@given(st.integers(0, 1000), st.integers(1, 12))
@settings(max_examples=25, deadline=None)
def test_herding_takes_what_brings_the_mean_nearest(seed, count):
    features = torch.randn(9, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    features = F.normalize(features, dim=-1)
    chosen = herding(features, count).tolist()
    assert len(set(chosen)) == len(chosen) == min(count, 9)
    for place, picked in enumerate(chosen):
        taken = features[chosen[:place]].sum(dim=0)
        distances = (features.mean(dim=0) - (taken + features) / (place + 1)).norm(dim=1)
        distances[chosen[:place]] = math.inf
        assert distances[picked] <= distances.min() + 1e-12


def test_the_memory_is_shared_evenly_and_old_tasks_keep_their_best():
    method = toy_method("icarl", memory=12)
    learn(method, toy_task("aircraft"))
    first = method.exemplars.kept[0].clone()
    learn(method, toy_task("dtd"))
    learn(method, toy_task("mnist"))
    assert [len(kept) for kept in method.exemplars.kept] == [4, 4, 4]
    assert torch.equal(method.exemplars.kept[0], first[:4])
    assert first.dtype == torch.uint8
    assert [len(kept) for kept in reload(method).exemplars.kept] == [4, 4, 4]


def test_without_a_memory_there_is_only_the_cross_entropy():
    method = toy_method("icarl")
    trainer = Trainer(method, toy_task("aircraft"))
    assert method.exemplars.pixels() is None
    assert method.restraint().item() == 0
    trainer.run(1).end()
    Trainer(method, toy_task("dtd"))
    assert len(method.exemplars.pixels()) == SMALL["reference_batch"]


def test_memory_batches_pass_through_all_tasks_in_turn():
    method = toy_method("icarl", memory=8, reference_batch=6)
    for name in ("aircraft", "dtd"):
        learn(method, toy_task(name))
    Trainer(method, toy_task("mnist"))
    everything = torch.cat(method.exemplars.kept)
    method.step = 1
    assert torch.equal(method.exemplars.pixels(), everything[[6, 7, 0, 1, 2, 3]])


def test_only_some_images_are_considered_when_there_are_many():
    method = toy_method("icarl", memory=50, herding_limit=5)
    learn(method, toy_task("aircraft"))
    assert len(method.exemplars.kept[0]) == 5
