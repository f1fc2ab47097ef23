"""Watching a forward pass changes nothing and sees everything."""

import pytest
import torch

from dpw.analysis.tracing import TracedAdaptation, trace
from dpw.data.images import Images
from dpw.errors import InputError
from tests.helpers.checks import nonempty
from tests.helpers.toy_methods import learn, some_pixels, toy_method, toy_task


def test_a_traced_pass_gives_the_same_tokens(subject):
    pixels = subject.pixels(subject.tasks[0])
    plain = subject.method.image_adaptation(0, None, None)
    traced = TracedAdaptation(plain, 0, torch.arange(len(pixels)), lambda _: None)
    with torch.inference_mode():
        expected = subject.method.backbone.image_tokens(pixels, plain)
        assert torch.equal(subject.method.backbone.image_tokens(pixels, traced), expected)


def test_prefix_and_weighted_adapter_add_up_to_what_the_method_adds(subject):
    pixels = subject.pixels(subject.tasks[1])
    route = subject.method.route(Images.of(pixels))
    records = []
    trace(subject.method, pixels, records.append)
    assert {record.block for record in records} == {0, 1}
    for record in nonempty(records):
        filtered = subject.method.answers.filtered(route)[record.rows]
        weight = route.weight[record.rows].float()
        adaptation = subject.method.image_adaptation(record.task, weight, filtered)
        by_head = record.adapter_output.view(*record.x.shape[:2], record.adapter_weight.shape[1], -1)
        adapted = (record.adapter_weight.transpose(1, 2).unsqueeze(-1) * by_head).flatten(2)
        expected = adaptation.value(record.block, record.x, record.q, slice(0, record.x.shape[1]))
        torch.testing.assert_close(record.prefix_output + adapted, expected)


def test_every_image_is_seen_once_in_every_block_whatever_its_task(subject):
    pixels = torch.cat([subject.pixels(task) for task in subject.tasks])
    seen = {0: [], 1: []}
    trace(subject.method, pixels, lambda record: seen[record.block].extend(record.rows.tolist()), batch=5)
    assert sorted(seen[0]) == sorted(seen[1]) == list(range(len(pixels)))


def test_a_model_that_knows_nothing_cannot_be_traced(subject):
    with pytest.raises(InputError, match="has not learned any task"):
        trace(subject.after(0).method, subject.pixels(subject.tasks[0]), lambda _: None)


def test_an_ablation_is_refused_because_its_weights_are_others(subject):
    method = subject.after(1).method
    method.config = method.config.model_copy(update={"activation": "softmax"})
    with pytest.raises(InputError, match="ablation"):
        trace(method, subject.pixels(subject.tasks[0]), lambda _: None)


def test_a_model_learned_with_a_uniform_adapter_weight_is_traced_with_that_weight():
    method = learn(toy_method("dpw", "ablation/weight-uniform", adapter_rank=4), toy_task("aircraft"))
    with torch.no_grad():  # lower scores would leave the filter nothing to do with the adapter
        method.bank[0]["image"].up.add_(1.0)
    records = []
    trace(method, some_pixels(), records.append, task=0)
    for record in nonempty(records):
        assert (record.adapter_weight == 1).all()
        adaptation = method.image_adaptation(0, None, None)
        expected = adaptation.value(record.block, record.x, record.q, slice(0, record.x.shape[1]))
        torch.testing.assert_close(record.prefix_output + record.adapter_output, expected)
