"""Whole-model parity with the authors' code: both protocols, training, initialisation, statistics."""

import pytest
import torch
from torch.nn import functional as F

from dpw.data.images import Images
from dpw.functional import repa_scores
from dpw.methods import Candidates
from dpw.methods.dpw import initial
from dpw.methods.dpw.statistics import RunningScores
from tests.helpers.golden_cases import assert_close, load, names
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
        assert_close(method.router.log_likelihood(method.frozen_features(images)), case[at + "out_log_probs"])
        assert_close(route.weight, case[at + "out_batch_weight"], "image weight")
        assert route.task.tolist() == [case[at + "out_voted_task"].item()] * len(rows)
        assert_close(route.text_weight[0], case[at + "out_text_batch_weight"][0], "text weight")
        features = method.adapted_features(images, route)
        assert_close(features, case[at + "out_image_features"], "image features")
        logits = method.logits(images, Candidates.among(groups[classes]))
    assert_close(logits, case[at + "out_logits"], "logits")


@pytest.mark.parametrize("which", WHICH)
def test_class_incremental_logits(which):
    method, groups, case, _ = golden_dpw(which)
    with torch.no_grad():
        route = method.router.route(method.frozen_features(Images.of(case["images_u8"])))
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


def align(columns, expected):
    """Turn columns so that they point the same way: singular vectors are defined up to sign."""
    return columns * (columns * expected).sum(dim=0, keepdim=True).sign()


@pytest.mark.parametrize("name", names("i_init", "e_i_init"))
def test_initialisation(name):
    case, meta = load(name)
    width, prefixes = meta["embed_dim"], meta["prefix_len"]
    query, key, value = case["in_proj_weight"].chunk(3)
    for task, heads in enumerate(meta["prefix_heads"]):
        expected = case[f"out_repa_weight_task{task}"]
        if meta["variant"] == "reduced":
            generator = torch.Generator().manual_seed(meta["torch_seed_before_each_init_attn"][task])
            ours = initial.orthogonal_heads(heads, width // heads, prefixes, generator)
            assert_close(ours, expected, "W^G of the reduced variant")
        else:
            columns = initial.singular_vectors(query @ key.T)[0][:, : heads * prefixes]
            theirs = expected.transpose(0, 1).reshape(width, heads * prefixes)
            assert_close(align(columns, theirs), theirs, "W^G")
        bias = -2.0 if meta["text"] else -4.0
        assert_close(
            torch.full_like(case[f"out_repa_bias_task{task}"], bias), case[f"out_repa_bias_task{task}"]
        )
    left, right = initial.singular_vectors(value)
    vectors = left[:, :prefixes] * value.norm(dim=0).mean()
    assert_close(align(vectors, case["out_prefix_pool"][0].T), case["out_prefix_pool"][0].T, "P_V")
    down = case["adapter_down_if_from_loaded_weights"]
    assert_close(align(right[:, : meta["rank"]], down), down, "D by the paper")
    unloaded = case["in_proj_weight_at_construction"].chunk(3)[2]
    down = case["out_adapter_down"]
    frame = initial.singular_vectors(unloaded)[1][:, : meta["rank"]]
    # Singular vectors of close singular values: the last digits belong to the linear algebra library.
    assert_close(align(frame, down), down, "D by the released code, before the weights are loaded", 2e-5)


@pytest.mark.parametrize("name", names("f_cls", "e_f_cls"))
def test_cls_statistics_of_the_released_code_include_validation_batches(name):
    case, _ = load(name)

    def scores(x):
        return repa_scores(x.transpose(0, 1), case["repa_weight"], case["repa_bias"])[:, :, 0]

    running = RunningScores()
    for key in sorted(key for key in case if key.startswith("epoch1_x")):
        running.add(0, scores(case[key]))
    mean, var = running.moments()
    assert_close(mean[0], case["out_mean_epoch1"])
    assert_close(var[0], case["out_var_epoch1"])
    running.clear()
    running.add(0, scores(case["val_x"]))
    assert running.counts[0] == case["out_count_after_val"].item()
    assert_close(running.sums[0], case["out_sum_after_val"])
    assert_close(running.squares[0], case["out_sumsq_after_val"])
    for key in sorted(key for key in case if key.startswith("epoch2_x")):
        running.add(0, scores(case[key]))
    mean, var = running.moments()
    assert_close(mean[0], case["out_mean_epoch2"])
    assert_close(var[0], case["out_var_epoch2"])
