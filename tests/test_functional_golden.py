"""`dpw.functional` gives the numbers of the authors' code: forward, every intermediate, gradients."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from dpw import functional as dpw
from tests.helpers.checks import nonempty
from tests.helpers.golden_cases import assert_close, load, load_json, names

DPW_CASES = names("a_", "b_", "c_", "d_", "e_a", "e_b", "e_c", "e_d")


def attention(x: Tensor, case: dict[str, Tensor], heads: int) -> tuple[Tensor, Tensor]:
    """Plain multi-head attention on `(B, N, D)`: the value before the output projection, and the query."""
    q, k, v = F.linear(x, case["in_proj_weight"], case["in_proj_bias"]).chunk(3, dim=-1)
    q, k, v = (t.view(*t.shape[:2], heads, -1).transpose(1, 2) for t in (q, k, v))
    value = F.scaled_dot_product_attention(q, k, v, attn_mask=case.get("attn_mask"))
    return value.transpose(1, 2).flatten(2), q


def project(value: Tensor, case: dict[str, Tensor]) -> Tensor:
    """The frozen output projection, back in the authors' layout `(N, B, D)`."""
    return F.linear(value, case["out_proj_weight"], case["out_proj_bias"]).transpose(0, 1)


def cutoff_of(case: dict[str, Tensor], meta: dict, scores: Tensor) -> Tensor | None:
    """The authors' rule: filter only if the batch's mean weight is below the gate."""
    if meta["training"] or case["batch_weight"].mean() >= meta["gate"]:
        return None
    if meta["text"]:
        return (1 - case["batch_weight"]).view(-1, 1, 1, 1)
    return dpw.gaussian_cutoff(scores[:, :, 0], case["cls_mean"], case["cls_var"])


@pytest.mark.parametrize("name", DPW_CASES)
def test_dpw_attention(name):
    case, meta = load(name)
    x = case["x"].transpose(0, 1)
    scores = dpw.repa_scores(x, case["repa_weight"], case["repa_bias"])
    assert_close(scores, case["out_scores"], "scores")
    g, total = dpw.conditional_norm(scores)
    assert_close(g, case["out_g"], "g")
    assert_close(total.unsqueeze(-1), case["out_sum_sigma"], "total")
    assert_close(dpw.residual_weight(total).unsqueeze(-1), case["out_delta"], "delta")
    if "out_likelihood" in case:
        likelihood = 1 - dpw.gaussian_cutoff(scores[:, :, 0], case["cls_mean"], case["cls_var"])
        assert_close(likelihood, case["out_likelihood"], "likelihood")

    cutoff = cutoff_of(case, meta, scores)
    assert (cutoff is not None) == meta["filtered"]
    if cutoff is not None:
        assert_close(cutoff.view(case["out_cutoff"].shape), case["out_cutoff"], "cutoff")
        g = dpw.conditional_filter(g, cutoff, strict=True)
    assert_close(g, case["out_g_filtered"], "g filtered")

    values = case["prefix_pool"][meta["task_index"]]
    heads = meta["prefix_heads"]
    prefix = dpw.prefix_output(g, values)
    assert_close(split_heads(prefix, heads), case["out_prefix"], "prefix output")
    adapter = (case["adapter_down"], case["adapter_up_weight"].T, case["adapter_up_bias"])
    adapted = dpw.adapter_output(x, *adapter, meta["adapter_scale"])
    assert_close(split_heads(adapted, heads), case["out_adapter"], "adapter output")

    residual = dpw.dpw_residual(
        x,
        case["repa_weight"],
        case["repa_bias"],
        values,
        *adapter,
        scale=meta["adapter_scale"],
        cutoff=cutoff,
        sample_weight=case.get("batch_weight"),
        strict=True,
    )
    assert_close(residual.transpose(0, 1), case["out_residual"], "residual")
    value, _ = attention(x, case, meta["num_heads"])
    assert_close(project(value, case), case["out_plain"], "plain attention")
    assert_close(project(value + residual, case), case["out"], "attention with residual")


def split_heads(values: Tensor, heads: int) -> Tensor:
    """`(B, N, D)` to the authors' `(B, h, N, D/h)`."""
    return values.view(*values.shape[:2], heads, -1).transpose(1, 2)


@pytest.mark.parametrize("name", names("a_", "e_a"))
def test_dpw_gradients(name):
    case, meta = load(name)
    trained = ("x", "repa_weight", "repa_bias", "prefix_pool", "adapter_up_weight", "adapter_up_bias")
    for key in nonempty(trained):
        case[key].requires_grad_()
    x = case["x"].transpose(0, 1)
    residual = dpw.dpw_residual(
        x,
        case["repa_weight"],
        case["repa_bias"],
        case["prefix_pool"][meta["task_index"]],
        case["adapter_down"],
        case["adapter_up_weight"].T,
        case["adapter_up_bias"],
        scale=meta["adapter_scale"],
    )
    value, _ = attention(x, case, meta["num_heads"])
    check_gradients(project(value + residual, case), case, trained)


def check_gradients(out: Tensor, case: dict[str, Tensor], trained: tuple[str, ...]) -> None:
    """The loss of the golden cases and its gradients."""
    loss = (out * case["loss_weight"]).sum() + 0.5 * (out**2).sum()
    assert_close(loss.detach(), case["loss"], "loss")
    loss.backward()
    for key in nonempty(trained):
        assert_close(case[key].grad, case[f"grad_{key}"], f"gradient of {key}")


def test_a_tie_is_dropped_by_the_code_and_kept_by_the_paper():
    case, _ = load("d_eval_text_tie_full")
    g, cutoff = case["out_g"], case["out_cutoff"]
    assert torch.equal(dpw.conditional_filter(g, cutoff, strict=True), torch.zeros_like(g))
    assert torch.equal(dpw.conditional_filter(g, cutoff), g)


@pytest.mark.parametrize("name", names("l_"))
def test_diki_attention(name):
    case, meta = load(name)
    case["prefix_pool"].requires_grad_()
    case["x"].requires_grad_()
    x = case["x"].transpose(0, 1)
    value, q = attention(x, case, meta["num_heads"])
    keys, values = case["prefix_pool"][meta["task_index"]]
    residual = dpw.attention_residual(q, keys, values, case.get("batch_weight"))
    assert_close(residual.detach().transpose(0, 1), case["out_residual"], "residual")
    out = project(value + residual, case)
    assert_close(out.detach(), case["out"], "attention with residual")
    if "loss" in case:
        check_gradients(out, case, ("x", "prefix_pool"))
    if "per_sample_ids" in case:
        rows = [
            dpw.attention_residual(
                q[i : i + 1], *case["prefix_pool"][task], sample_weight=case["batch_weight"][i : i + 1]
            )
            for i, task in enumerate(case["per_sample_ids"].flatten().tolist())
        ]
        out = project(value + torch.cat(rows), case)
        assert_close(out.detach(), case["out_per_sample"], "one task id per sample")


def test_gaussian_task_identification():
    case, meta = load("gh_task_identification")
    fitted = []
    for task in range(len(meta["class_counts"])):
        features = F.normalize(case[f"task{task}.features_raw"], dim=-1)
        mean, cholesky = dpw.fit_gaussian(features, ridge=1e-7)
        assert_close(mean, case["out_task_mean"][task], "mean")
        assert_close(cholesky @ cholesky.T, case["out_task_covar"][task], "covariance")
        fitted.append((mean, cholesky))
    mean, cholesky = (torch.stack(parts) for parts in zip(*fitted, strict=True))
    features = F.normalize(case["test_features_raw"], dim=-1)
    log_likelihood = dpw.gaussian_log_likelihood(features, mean, cholesky)
    assert_close(log_likelihood, case["div512.out_log_probs"], "log-likelihood")
    for dim in (16, 512):
        weights = dpw.calibrate(log_likelihood, dim)
        assert_close(weights, case[f"div{dim}.out_probs_all_tasks"], "weights of all tasks")
        assert_close(weights.amax(dim=1), case[f"div{dim}.out_batch_weight"], "weight of the best task")
        assert torch.equal(log_likelihood.argmax(dim=1), case[f"div{dim}.out_raw_task"].flatten())


@pytest.mark.parametrize("task", [0, 1, 2])
def test_adaptive_head_count(task):
    case, meta = load("gh_task_identification")
    first = sum(meta["class_counts"][:task])
    classes = meta["class_counts"][task]
    text = F.normalize(case["text_features_raw"][first : first + classes], dim=-1)
    features = F.normalize(case[f"task{task}.features_raw"], dim=-1)
    separation = dpw.class_separation(features, case[f"task{task}.labels"], text)
    for name, value in nonempty(separation._asdict().items()):
        assert_close(value, case[f"task{task}.out_{name}"], name)
    score = dpw.easiness(*separation, classes=classes)
    assert_close(score, case[f"task{task}.out_easiness"], "easiness")
    factor = score / case[f"task{task}.out_zs_accuracy"].item()
    assert_close(factor, case[f"task{task}.out_factor"], "factor")
    assert (
        dpw.head_count(meta["text_heads"], factor, truncate=True)
        == case[f"task{task}.out_prefix_heads_text"].item()
    )


def test_head_count_by_the_paper_and_by_the_code():
    for heads, factor, official, paper in nonempty(load_json("h_heads_full")["rows"]):
        assert dpw.head_count(heads, factor, truncate=True) == official
        # The paper's formula falls below one head for hard tasks; there is no half head.
        assert dpw.head_count(heads, factor) == max(paper, 1)


def test_metrics():
    case = load_json("k_metrics")
    result = dpw.transfer_avg_last(case["accuracy"])
    for name in ("transfer", "avg", "last"):
        percent = [round(100 * value, 1) for value in getattr(result, name)]
        assert percent == case["result"][name][name]
        mean = getattr(result, f"mean_{name}")
        assert math.isclose(100 * mean, case["result"]["results_mean"][name], abs_tol=0.05)
