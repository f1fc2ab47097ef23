"""Statistics of the CLS scores: those of the authors' code, from CLS alone."""

import pytest
import torch

from benchmarks import models
from dpw.functional import repa_scores
from dpw.methods.dpw.statistics import RunningScores
from tests.helpers.golden_cases import assert_close, load, names


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


BACKBONE = models.backbone("tiny")

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@torch.no_grad()
def test_cls_statistics_need_only_cls_in_the_last_block():
    method, pixels = models.learned("dpw", BACKBONE, 1, 4), models.photographs("tiny", 3)
    moments = []
    for run in (BACKBONE.image_tokens, BACKBONE.encode_images):
        running = RunningScores()
        run(pixels, method.image_adaptation(0, None, None, running))
        moments.append(running.moments())
    torch.testing.assert_close(moments[0], moments[1], **CLOSE)


def test_a_score_that_never_changes_has_variance_zero():
    """The first block's [CLS] is the same for all images; float32 sums left noise above the clamp of 1e-6."""
    running = RunningScores()
    score = torch.full((64, 2, 8), -3.9871)
    for _ in range(50):
        running.add(0, score)
    mean, variance = running.moments()
    assert variance.abs().max() < 1e-12
    torch.testing.assert_close(mean[0].float(), score[0])


def test_sums_of_an_old_checkpoint_go_on_in_float64():
    running = RunningScores()
    running.add(0, torch.ones(2, 1, 1))
    stored = {name: tensor.float() for name, tensor in running.state().items()}
    running.load(stored)
    running.add(0, torch.ones(2, 1, 1))
    assert running.sums[0].dtype == torch.float64
    assert running.moments()[0].item() == 1
