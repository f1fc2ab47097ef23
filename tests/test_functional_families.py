"""The statistic that plays [CLS]'s part where there is none: what must hold for any numbers."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from dpw import functional as paper

shapes = st.tuples(st.integers(1, 3), st.sampled_from([1, 2, 4]), st.integers(1, 6), st.integers(1, 8))


def tensor(seed, *shape, scale=1.0):
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(shapes, st.integers(0, 10**6))
def test_with_cls_it_is_the_first_token_alone(shape, seed):
    scores = tensor(seed, *shape)
    changed = torch.cat([scores[:, :, :1], scores[:, :, 1:] + 1], dim=2)
    assert torch.equal(paper.image_scores(scores), scores[:, :, 0])
    assert torch.equal(paper.image_scores(changed), paper.image_scores(scores))


@given(shapes, st.integers(0, 10**6))
def test_without_cls_it_is_the_score_of_the_mean_patch(shape, seed):
    batch, heads, tokens, prefixes = shape
    x, weight = tensor(seed, batch, tokens, 8), tensor(seed + 1, heads, 8, prefixes)
    bias = tensor(seed + 2, heads, tokens, prefixes)
    found = paper.image_scores(paper.repa_scores(x, weight, bias), has_cls=False)
    mean = paper.repa_scores(x.mean(dim=1, keepdim=True), weight, bias.mean(dim=1, keepdim=True))
    assert torch.allclose(found, mean[:, :, 0])


@given(shapes, st.integers(0, 10**6))
def test_without_cls_no_patch_is_special(shape, seed):
    scores = tensor(seed, *shape)
    order = torch.randperm(shape[2], generator=torch.Generator().manual_seed(seed))
    found = paper.image_scores(scores, has_cls=False)
    assert torch.allclose(paper.image_scores(scores[:, :, order], has_cls=False), found)


@given(shapes, st.integers(0, 10**6))
def test_where_all_tokens_are_equal_both_give_the_papers_cutoff(shape, seed):
    batch, heads, tokens, prefixes = shape
    scores = tensor(seed, batch, heads, 1, prefixes).expand(-1, -1, tokens, -1)
    mean, var = tensor(seed + 1, heads, prefixes), tensor(seed + 2, heads, prefixes).square() + 0.1
    cutoffs = [
        paper.gaussian_cutoff(paper.image_scores(scores, has_cls), mean, var) for has_cls in (True, False)
    ]
    assert torch.allclose(*cutoffs)


@given(st.integers(0, 10**6), st.floats(0.1, 5))
def test_the_usual_image_is_cut_least(seed, distance):
    mean, var = tensor(seed, 2, 3), tensor(seed + 1, 2, 3).square() + 0.1
    noise = tensor(seed + 2, 1, 2, 5, 3)
    noise = noise - noise.mean(dim=2, keepdim=True)  # patches may differ as they like around their mean
    usual = paper.image_scores(mean[None, :, None] + noise, has_cls=False)
    unusual = usual + distance
    assert (paper.gaussian_cutoff(usual, mean, var) <= paper.gaussian_cutoff(unusual, mean, var)).all()
