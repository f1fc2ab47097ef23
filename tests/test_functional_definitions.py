"""`dpw.functional` against the paper's definitions, number by number, for any shape.

The definitions are written here as sums over single numbers, as the paper has them; what the authors' code
adds (one bias row for each position, strict filter, clamped variance, weight of a sample) as in its release.
"""

import math
from typing import NamedTuple

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dpw import functional as dpw


class Shape(NamedTuple):
    """Sizes of one module: B samples, N tokens, h heads of width w, L prefixes, rank r."""

    batch: int
    tokens: int
    heads: int
    width: int
    prefixes: int
    rank: int
    reduced: bool


shapes = st.builds(
    Shape,
    batch=st.integers(1, 3),
    tokens=st.integers(1, 4),
    heads=st.sampled_from([1, 2, 3, 4]),
    width=st.integers(1, 4),
    prefixes=st.integers(1, 9),
    rank=st.integers(1, 5),
    reduced=st.booleans(),
)
seeds = st.integers(0, 10**6)
slowly = settings(deadline=None, max_examples=40)


def sigmoid(value: float) -> float:
    """σ of a number."""
    return 1 / (1 + math.exp(-value))


class Module:
    """Random parameters of one module and one batch of tokens."""

    def __init__(self, shape: Shape, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)

        def drawn(*sizes: int, scale: float = 1.0) -> Tensor:
            return scale * torch.randn(*sizes, generator=generator, dtype=torch.float64)

        dim = shape.heads * shape.width
        self.shape, self.dim = shape, dim
        self.x = drawn(shape.batch, shape.tokens, dim)
        self.weight = drawn(shape.heads, shape.width if shape.reduced else dim, shape.prefixes)
        self.bias = drawn(shape.heads, shape.tokens + 2, shape.prefixes)  # longer than the sequence
        self.values = drawn(shape.prefixes, dim)
        self.down, self.up, self.up_bias = drawn(dim, shape.rank), drawn(shape.rank, dim), drawn(dim)
        self.mean = drawn(shape.heads, shape.prefixes)
        self.var = drawn(shape.heads, shape.prefixes)  # also below zero, as sums in low precision leave it
        self.sample_weight = torch.rand(shape.batch, generator=generator, dtype=torch.float64)

    def score(self, b: int, i: int, j: int, k: int) -> float:
        """s_ijk = x_j · W^G_i[:, k] + B_i[j, k]; in the reduced variant of head i's own slice of x_j."""
        first = i * self.shape.width if self.shape.reduced else 0
        rows = self.weight.shape[1]
        dot = sum(float(self.x[b, j, first + d] * self.weight[i, d, k]) for d in range(rows))
        return dot + float(self.bias[i, j, k])

    def cutoff(self, b: int, i: int, k: int) -> float:
        """1 − σ(log φ(s_cls)), with the variance clamped at 1e-6."""
        var = max(float(self.var[i, k]), 1e-6)
        distance = self.score(b, i, 0, k) - float(self.mean[i, k])
        density = -0.5 * distance**2 / var - 0.5 * math.log(2 * math.pi * var)
        return 1 - (0.0 if density < -700 else sigmoid(density))

    def adapted(self, b: int, j: int, scale: float) -> list[float]:
        """E(x_j) = scale · (x_j D U + b)."""
        hidden = [
            sum(float(self.x[b, j, d] * self.down[d, r]) for d in range(self.dim))
            for r in range(self.shape.rank)
        ]
        return [
            scale * (sum(h * float(self.up[r, d]) for r, h in enumerate(hidden)) + float(self.up_bias[d]))
            for d in range(self.dim)
        ]

    def residual(self, filtering: str, weighted: bool, strict: bool, scale: float) -> Tensor:
        """O_R of every sample and token, one number after another."""
        shape, out = self.shape, torch.zeros_like(self.x)
        for b in range(shape.batch):
            w = float(self.sample_weight[b]) if weighted else 1.0
            for i in range(shape.heads):
                for j in range(shape.tokens):
                    sigma = [sigmoid(self.score(b, i, j, k)) for k in range(shape.prefixes)]
                    total = sum(sigma)
                    g = [s / total for s in sigma] if total >= 1 else sigma
                    if filtering != "none":
                        cut = [
                            self.cutoff(b, i, k) if filtering == "image" else 1 - float(self.sample_weight[b])
                            for k in range(shape.prefixes)
                        ]
                        g = [v if (v > c if strict else v >= c) else 0.0 for v, c in zip(g, cut, strict=True)]
                    adapted = self.adapted(b, j, scale)
                    for d in range(i * shape.width, (i + 1) * shape.width):
                        prefixed = sum(v * float(self.values[k, d]) for k, v in enumerate(g))
                        out[b, j, d] = w * (prefixed + max(0.0, total - 1) * adapted[d])
        return out


@slowly
@given(shapes, seeds, st.sampled_from(["none", "image", "text"]), st.booleans(), st.booleans())
def test_the_module_is_its_definition(shape, seed, filtering, weighted, strict):
    module = Module(shape, seed)
    scores = dpw.repa_scores(module.x, module.weight, module.bias)
    cutoff = None
    if filtering == "image":
        cutoff = dpw.gaussian_cutoff(scores[:, :, 0], module.mean, module.var)
    elif filtering == "text":
        cutoff = (1 - module.sample_weight).view(-1, 1, 1, 1)
    found = dpw.dpw_residual(
        *(module.x, module.weight, module.bias, module.values, module.down, module.up, module.up_bias),
        scale=0.05,
        cutoff=cutoff,
        sample_weight=module.sample_weight if weighted else None,
        strict=strict,
    )
    torch.testing.assert_close(found, module.residual(filtering, weighted, strict, 0.05))


@slowly
@given(shapes, seeds)
def test_single_precision_is_close_to_double(shape, seed):
    module = Module(shape, seed)
    parts = (module.x, module.weight, module.bias, module.values, module.down, module.up, module.up_bias)
    exact = dpw.dpw_residual(*parts, scale=0.05, sample_weight=module.sample_weight)
    rough = dpw.dpw_residual(
        *(part.float() for part in parts), scale=0.05, sample_weight=module.sample_weight.float()
    )
    assert rough.dtype == torch.float32
    assert (rough.double() - exact).abs().max() <= 2e-5 * (1 + exact.abs().max())


@slowly
@given(shapes, seeds)
def test_a_sample_does_not_see_the_others(shape, seed):
    module = Module(shape, seed)
    parts = (module.weight, module.bias, module.values, module.down, module.up, module.up_bias)
    together = dpw.dpw_residual(module.x, *parts, scale=0.05, sample_weight=module.sample_weight)
    for b in range(shape.batch):
        alone = dpw.dpw_residual(
            module.x[b : b + 1], *parts, scale=0.05, sample_weight=module.sample_weight[b : b + 1]
        )
        torch.testing.assert_close(alone[0], together[b])


@slowly
@given(shapes, seeds)
def test_dikis_residual_is_its_definition(shape, seed):
    module = Module(shape, seed)
    q = module.x.view(shape.batch, shape.tokens, shape.heads, shape.width).transpose(1, 2)
    keys = module.values.flip(0).contiguous()
    found = dpw.attention_residual(q, keys, module.values, module.sample_weight)
    for b in range(shape.batch):
        for i in range(shape.heads):
            part = slice(i * shape.width, (i + 1) * shape.width)
            for j in range(shape.tokens):
                dots = [float(q[b, i, j] @ keys[k, part]) for k in range(shape.prefixes)]
                shares = [math.exp(dot / math.sqrt(shape.width)) for dot in dots]
                value = sum(share / sum(shares) * module.values[k, part] for k, share in enumerate(shares))
                torch.testing.assert_close(found[b, j, part], module.sample_weight[b] * value)


@slowly
@given(st.lists(st.integers(2, 5), min_size=2, max_size=4), seeds)
def test_class_separation_of_classes_of_different_size(counts, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.tensor([label for label, count in enumerate(counts) for _ in range(count)])
    features = torch.randn(len(labels), 5, generator=generator, dtype=torch.float64)
    features = features / features.norm(dim=1, keepdim=True)
    texts = torch.randn(len(counts), 5, generator=generator, dtype=torch.float64)
    texts = texts / texts.norm(dim=1, keepdim=True)
    within, means = [], []
    for label, count in enumerate(counts):
        own = features[labels == label]
        pairs = [float(own[j] @ own[k]) for j in range(count) for k in range(count) if j != k]
        within.append(sum(pairs) / (count * (count - 1)))
        mean = own.mean(dim=0)
        means.append(mean / mean.norm())
    many = len(counts)

    def between(rows):
        return sum(float(rows[i] @ rows[j]) for i in range(many) for j in range(many) if i != j)

    shuffled = torch.randperm(len(labels), generator=generator)
    found = dpw.class_separation(features[shuffled], labels[shuffled], texts)
    pairs = many * (many - 1)
    expected = (1 - between(means) / pairs, 1 - between(texts) / pairs, 1 - sum(within) / many)
    assert all(math.isclose(f, e, abs_tol=1e-9) for f, e in zip(found, expected, strict=True))
    easy = float(dpw.easiness(*found, classes=many))
    assert math.isclose(easy, 0.5 * (expected[0] + expected[1]) / (expected[2] + 10 / many), rel_tol=1e-9)


@given(st.integers(1, 32), st.floats(0, 5))
def test_head_counts_are_powers_of_two_near_the_wanted_number(heads, factor):
    for truncate in (False, True):
        found = dpw.head_count(heads, factor, truncate)
        wanted = int(heads * factor) if truncate else heads * factor
        assert found >= 1
        assert math.log2(found) == int(math.log2(found))
        if wanted >= 1:
            assert abs(math.log2(found) - math.log2(wanted)) <= 0.5 + 1e-9
        else:
            assert found == 1


@slowly
@given(st.integers(1, 6), st.integers(1, 4), seeds)
def test_a_task_is_weighed_by_the_density_of_its_gaussian(dim, tasks, seed):
    """σ(log N(f; μ, Σ)/D − 1), from the inverse and the determinant of Σ."""
    generator = torch.Generator().manual_seed(seed)
    f = torch.randn(dim, generator=generator, dtype=torch.float64)
    fitted, expected = [], []
    for _ in range(tasks):
        sample = torch.randn(2 * dim + 3, dim, generator=generator, dtype=torch.float64)
        mean = sum(sample) / len(sample)
        covariance = sum(torch.outer(row - mean, row - mean) for row in sample) / (len(sample) - 1)
        covariance = covariance + 1e-7 * torch.eye(dim, dtype=torch.float64)
        distance = (f - mean) @ torch.linalg.inv(covariance) @ (f - mean)
        log_density = -0.5 * (distance + torch.logdet(covariance) + dim * math.log(2 * math.pi))
        expected.append(sigmoid(float(log_density) / dim - 1))
        fitted.append(dpw.fit_gaussian(sample, 1e-7))
    mean, cholesky = (torch.stack(parts) for parts in zip(*fitted, strict=True))
    weights = dpw.calibrate(dpw.gaussian_log_likelihood(f[None], mean, cholesky), dim)[0]
    torch.testing.assert_close(weights, torch.tensor(expected, dtype=torch.float64))


@given(st.integers(2, 5), seeds)
def test_metrics_are_their_definitions(tasks, seed):
    p = torch.rand(tasks, tasks, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    found = dpw.transfer_avg_last(p)
    for j in range(tasks):
        assert math.isclose(found.avg[j], sum(float(p[i, j]) for i in range(tasks)) / tasks)
        assert math.isclose(found.last[j], float(p[tasks - 1, j]))
        if j:
            assert math.isclose(found.transfer[j - 1], sum(float(p[i, j]) for i in range(j)) / j)
    assert math.isclose(found.mean_transfer, sum(found.transfer) / (tasks - 1))
