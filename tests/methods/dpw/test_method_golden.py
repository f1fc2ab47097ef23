"""Whole-model parity with the authors' code: both protocols and training."""

import pytest
import torch
from torch.nn import functional as F

from dpw.data.images import Images
from dpw.methods import Candidates
from tests.helpers.golden_cases import assert_close
from tests.helpers.golden_methods import golden_dpw

WHICH = ["sharp", "blunt"]


@pytest.mark.parametrize("which", WHICH)
@pytest.mark.parametrize("batch", ["own", "mixed"])
@pytest.mark.parametrize("classes", [0, 1, 2])
def test_task_incremental_logits_with_the_published_batch_vote(which, batch, classes):
    method, groups, case, _ = golden_dpw(which)
    rows = case["mixed_index"] if batch == "mixed" else torch.arange(3 * classes, 3 * classes + 3)
    images = Images.of(case["images_u8"][rows])
    at = f"{which}.mtil.classes{classes}.{batch}."
    with torch.no_grad():
        route = method.route(images)
        likelihood = method.answers.router.log_likelihood(method.frozen_features(images))
        assert_close(likelihood, case[at + "out_log_probs"])
        assert_close(route.weight, case[at + "out_batch_weight"], "image weight")
        assert route.task.tolist() == [case[at + "out_voted_task"].item()] * len(rows)
        assert_close(route.text_weight[0], case[at + "out_text_batch_weight"][0], "text weight")
        features = method.answers.adapted_features(images, route)
        assert_close(features, case[at + "out_image_features"], "image features")
        logits = method.logits(images, Candidates.among(groups[classes]))
    assert_close(logits, case[at + "out_logits"], "logits")


@pytest.mark.parametrize("which", WHICH)
def test_class_incremental_logits(which):
    method, groups, case, _ = golden_dpw(which)
    with torch.no_grad():
        route = method.answers.router.route(method.frozen_features(Images.of(case["images_u8"])))
        assert_close(route.confidence, case[f"{which}.cil.out_task_probs"], "confidence")
        assert torch.equal(route.task, case[f"{which}.cil.out_task"])
        logits = method.logits(Images.of(case["images_u8"]), Candidates.learned(groups))
    assert_close(logits, case[f"{which}.cil.out_logits"], "logits")


def test_training_loss_and_gradients():
    method, _, case, meta = golden_dpw("sharp")
    index = int(case["train.task"])
    for _ in range(len(method.tasks) - index - 1):
        method.forget(index + 1)
    method.bank[index].requires_grad_()
    logits = method.task_logits(case["images_u8"])
    assert_close(logits.detach(), case["train.out_logits"], "logits")
    loss = F.cross_entropy(logits, case["train.labels"])
    assert_close(loss.detach(), case["train.out_loss"], "loss")
    loss.backward()
    for ours, theirs in (("image", "visual"), ("text", "text")):
        tower = method.bank[index][ours]
        for block in range(meta["layers"]):
            at = f"train.grad.{theirs}.{block}."
            assert_close(tower.weight.grad[block], case[at + "repa_weight"], at)
            assert_close(tower.bias.grad[block], case[at + "repa_bias"], at)
            assert_close(tower.values.grad[block], case[at + "prefix_value"], at)
            assert_close(tower.up.grad[block].T, case[at + "adapter_up_weight"], at)
            assert_close(tower.up_bias.grad[block], case[at + "adapter_up_bias"], at)
