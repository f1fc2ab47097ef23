"""What must hold for any numbers: the paper's bounds, continuity, and stability."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpw import functional as dpw
from tests.helpers.bfloat16 import needs_bfloat16

shapes = st.tuples(st.integers(1, 3), st.sampled_from([1, 2, 4]), st.integers(1, 6), st.integers(1, 8))


def tensor(seed, *shape, scale=1.0):
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(shapes, st.integers(0, 10**6), st.floats(0.1, 8))
def test_weights_never_sum_above_one_and_delta_only_where_the_total_does(shape, seed, scale):
    g, total = dpw.conditional_norm(tensor(seed, *shape, scale=scale))
    assert (g >= 0).all()
    assert (g.sum(dim=-1) <= 1 + 1e-12).all()
    delta = dpw.residual_weight(total)
    assert ((delta > 0) == (total > 1)).all()
    # Below one nothing is normalised, above one everything is used.
    assert torch.allclose(g.sum(dim=-1), total.clamp(max=1))


@given(shapes, st.integers(0, 10**6), st.floats(0.1, 8))
def test_drift_bounds_of_the_proposition(shape, seed, scale):
    batch, heads, tokens, prefixes = shape
    scores = tensor(seed, *shape, scale=scale)
    values = tensor(seed + 1, prefixes, heads * 4)
    g, _ = dpw.conditional_norm(scores)
    for weights, conditional in ((g, True), (torch.sigmoid(scores), False)):
        drift = dpw.prefix_output(weights, values).view(batch, tokens, heads, 4).norm(dim=-1)
        assert (drift <= dpw.drift_bound(values, heads, conditional) + 1e-9).all()


@given(st.integers(0, 10**6), st.floats(-1e-6, 1e-6))
def test_continuity_where_the_total_is_one(seed, distance):
    prefixes = 4
    scores = torch.full((1, 1, 1, prefixes), -math.log(prefixes - 1), dtype=torch.float64)
    values, adapted = tensor(seed, prefixes, 8), tensor(seed + 1, 1, 1, 8)
    at_one = dpw.weighted_residual(scores, values, adapted)
    nearby = dpw.weighted_residual(scores + distance, values, adapted)
    assert torch.allclose(at_one, nearby, atol=1e-4)


@given(shapes, st.integers(0, 10**6))
def test_filtering_keeps_or_drops_and_never_changes(shape, seed):
    g, _ = dpw.conditional_norm(tensor(seed, *shape))
    batch, heads, _, prefixes = shape
    cutoff = torch.rand(batch, heads, prefixes, dtype=torch.float64)
    kept = dpw.conditional_filter(g, cutoff)
    assert ((kept == 0) | (kept == g)).all()
    assert torch.equal(dpw.conditional_filter(g, 0.0), g)
    assert torch.equal(dpw.conditional_filter(g, cutoff, strict=True) > 0, g > cutoff.unsqueeze(2))


@given(st.integers(0, 10**6), st.sampled_from([1, 2, 4]))
def test_the_reduced_variant_is_the_full_one_with_zeros_outside_its_slice(seed, heads):
    x, small = tensor(seed, 2, 5, 8), tensor(seed + 1, heads, 8 // heads, 3)
    bias = tensor(seed + 2, heads, 7, 3)
    full = torch.zeros(heads, 8, 3, dtype=torch.float64)
    for head in range(heads):
        full[head, head * 8 // heads : (head + 1) * 8 // heads] = small[head]
    assert torch.allclose(dpw.repa_scores(x, small, bias), dpw.repa_scores(x, full, bias))


@given(st.integers(0, 10**6), st.permutations(range(4)))
def test_a_permuted_batch_gives_permuted_residuals(seed, order):
    x, weight, bias = tensor(seed, 4, 5, 8), tensor(seed + 1, 2, 8, 3), tensor(seed + 2, 2, 5, 3)
    values, down, up = tensor(seed + 3, 3, 8), tensor(seed + 4, 8, 2), tensor(seed + 5, 2, 8)
    sample_weight = torch.rand(4, dtype=torch.float64)

    def residual(rows):
        return dpw.dpw_residual(
            x[rows],
            weight,
            bias,
            values,
            down,
            up,
            torch.zeros(8, dtype=torch.float64),
            scale=0.05,
            sample_weight=sample_weight[rows],
        )

    assert torch.allclose(residual(list(range(4)))[list(order)], residual(list(order)))


def test_sample_weight_zero_gives_exactly_nothing():
    out = dpw.dpw_residual(
        tensor(0, 2, 5, 8),
        tensor(1, 2, 8, 3),
        tensor(2, 2, 5, 3),
        tensor(3, 3, 8),
        tensor(4, 8, 2),
        tensor(5, 2, 8),
        tensor(6, 8),
        scale=0.05,
        sample_weight=torch.zeros(2, dtype=torch.float64),
    )
    assert torch.equal(out, torch.zeros_like(out))


def test_everything_is_differentiable():
    inputs = [tensor(0, 2, 3, 4), tensor(1, 2, 4, 2), tensor(2, 2, 3, 2), tensor(3, 2, 4)]
    inputs += [tensor(4, 4, 2), tensor(5, 2, 4), tensor(6, 4)]
    inputs = [value.requires_grad_() for value in inputs]
    weight = torch.tensor([0.3, 0.9], dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda *parts: dpw.dpw_residual(*parts, scale=0.5, sample_weight=weight), inputs
    )


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(0, 10**6))
def test_gaussian_is_stable_with_fewer_samples_than_dimensions(samples, seed):
    features = torch.nn.functional.normalize(tensor(seed, samples, 32).float(), dim=-1)
    mean, cholesky = dpw.fit_gaussian(features, ridge=1e-7)
    likelihood = dpw.gaussian_log_likelihood(features, mean, cholesky)
    assert torch.isfinite(likelihood).all()
    assert mean.dtype == cholesky.dtype == likelihood.dtype == torch.float64


def test_gaussian_equals_torch_and_stacks_over_tasks():
    features = tensor(0, 100, 6)
    fits = [dpw.fit_gaussian(features[start : start + 50], 1e-3) for start in (0, 50)]
    mean, cholesky = (torch.stack(parts) for parts in zip(*fits, strict=True))
    expected = torch.distributions.MultivariateNormal(mean, scale_tril=cholesky).log_prob(features[:, None])
    assert torch.allclose(dpw.gaussian_log_likelihood(features, mean, cholesky), expected)
    assert torch.allclose(dpw.gaussian_log_likelihood(features, *fits[0]), expected[:, 0])


@given(st.integers(2, 5), st.integers(1, 6), st.integers(0, 10**6))
def test_class_separation_equals_the_sum_over_pairs(classes, samples, seed):
    features = torch.nn.functional.normalize(tensor(seed, classes * samples, 7), dim=-1)
    labels = torch.arange(classes).repeat_interleave(samples)
    text = torch.nn.functional.normalize(tensor(seed + 1, classes, 7), dim=-1)
    result = dpw.class_separation(features, labels, text)
    within = []
    for c in range(classes):
        cosines = features[labels == c] @ features[labels == c].T
        pairs = samples * (samples - 1)
        within.append(((cosines.sum() - cosines.trace()) / pairs).item() if pairs else 1.0)
    assert math.isclose(result.intra_image, 1 - sum(within) / classes, abs_tol=1e-9)
    cosines = text @ text.T
    between = (cosines.sum() - cosines.trace()).item() / (classes * (classes - 1))
    assert math.isclose(result.inter_text, 1 - between, abs_tol=1e-9)


@given(st.integers(1, 6), st.integers(0, 10**6))
def test_metrics_of_any_matrix(tasks, seed):
    matrix = torch.rand(tasks, tasks, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    result = dpw.transfer_avg_last(matrix)
    assert len(result.transfer) == tasks - 1
    assert math.isclose(result.mean_last, matrix[-1].mean().item())
    assert math.isclose(result.mean_avg, matrix.mean().item())
    if tasks == 1:
        assert math.isnan(result.mean_transfer)
    else:
        assert math.isclose(result.transfer[0], matrix[0, 1].item())


@pytest.mark.parametrize("bad", [[[1.0, 2.0]], [], [[math.nan]]])
def test_metrics_refuse_incomplete_matrices(bad):
    with pytest.raises(ValueError, match="accuracy matrix"):
        dpw.transfer_avg_last(torch.tensor(bad))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_any_floating_type(dtype):
    if dtype == torch.bfloat16:
        needs_bfloat16()
    parts = [tensor(0, 2, 5, 8), tensor(1, 2, 8, 3), tensor(2, 2, 5, 3), tensor(3, 3, 8)]
    parts += [tensor(4, 8, 2), tensor(5, 2, 8), tensor(6, 8)]
    out = dpw.dpw_residual(
        *(part.to(dtype) for part in parts), scale=0.05, sample_weight=torch.ones(2, dtype=dtype)
    )
    assert out.dtype == dtype
    assert torch.isfinite(out).all()
