"""The paper's equations as pure, differentiable tensor functions.

Shapes: B images (or prompts), N tokens, D width, h heads of the prefix branch, L prefixes, r adapter rank,
C classes, T tasks. Equation names are those of the paper; "App." is its appendix.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

MINIMUM_VARIANCE = 1e-6


def repa_scores(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """RePA, S = X W^G + B^G (Eq. affine): scores `(B, h, N, L)` of every token for every prefix.

    x `(B, N, D)`; weight `(h, D, L)`, or `(h, D/h, L)` where head i sees only its own slice of x;
    bias `(h, M, L)` with M >= N, of which the first N positions are used.
    """
    heads, rows, prefixes = weight.shape
    tokens, width = x.shape[1], x.shape[2]
    if rows != width:
        return _by_head(x, heads).transpose(1, 2) @ weight + bias[:, :tokens]
    # All heads in one matrix product; the result is a view of (B, N, h, L).
    scores = x @ weight.permute(1, 0, 2).reshape(width, heads * prefixes)
    by_head = scores.reshape(-1, tokens, heads, prefixes) + bias[:, :tokens].transpose(0, 1)
    return by_head.transpose(1, 2)


def conditional_norm(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Conditional normalisation (Eq. condact, step 1): weights `g` and totals `Σ_k σ(s)`.

    g `(B, h, N, L)` is σ(s), divided by its total wherever the total exceeds one; total `(B, h, N)`.

    Example:
        >>> import torch
        >>> from dpw.functional import conditional_norm
        >>> conditional_norm(torch.zeros(3))  # three times σ(0) = 0.5 is more than one
        (tensor([0.3333, 0.3333, 0.3333]), tensor(1.5000))
    """
    gates = torch.sigmoid(scores)
    total = gates.sum(dim=-1)
    return gates / total.clamp(min=1).unsqueeze(-1), total


def gaussian_cutoff(cls_scores: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    """Cut-off = 1 − σ(log φ(s_cls; μ, σ²)) (Eq. cutoff_nontxt), `(B, h, L)` like the CLS scores.

    Example:
        >>> import torch
        >>> from dpw.functional import gaussian_cutoff
        >>> gaussian_cutoff(torch.tensor([0.0, 3.0]), torch.tensor(0.0), torch.tensor(1.0))
        tensor([0.7148, 0.9956])
    """
    var = var.clamp(min=MINIMUM_VARIANCE)
    log_density = -0.5 * ((cls_scores - mean) ** 2 / var + torch.log(2 * math.pi * var))
    return 1 - torch.sigmoid(log_density)


def image_scores(scores: Tensor, has_cls: bool = True) -> Tensor:
    """The scores `(B, h, L)` that stand for a whole image, of which the cut-off asks how usual they are.

    Those of [CLS], the first token (Eq. cutoff_nontxt). In a tower without [CLS] the mean over all patches:
    scores are affine in the token, so this is the score of the mean patch.
    """
    return scores[:, :, 0] if has_cls else scores.mean(dim=2)


def conditional_filter(g: Tensor, cutoff: Tensor | float, strict: bool = False) -> Tensor:
    """Conditional filtering (Eq. condact, step 2): g where g >= cutoff, else 0.

    A cut-off `(B, h, L)` (as `gaussian_cutoff` gives it) holds for all tokens; anything else must broadcast
    to `(B, h, N, L)`. `strict` keeps only g > cutoff, as the authors' code does.

    Example:
        >>> import torch
        >>> from dpw.functional import conditional_filter
        >>> conditional_filter(torch.tensor([0.1, 0.3, 0.5]), 0.3)
        tensor([0.0000, 0.3000, 0.5000])
    """
    if isinstance(cutoff, Tensor) and cutoff.dim() == g.dim() - 1:
        cutoff = cutoff.unsqueeze(-2)
    return g * (g > cutoff if strict else g >= cutoff)


def residual_weight(total: Tensor) -> Tensor:
    """Residual weighting, Δ = max(0, Σ_k σ(s) − 1) (Eq. adapter_delta), `(B, h, N)`.

    Example:
        >>> import torch
        >>> from dpw.functional import residual_weight
        >>> residual_weight(torch.tensor([0.4, 1.5]))
        tensor([0.0000, 0.5000])
    """
    return (total - 1).clamp(min=0)


def prefix_output(g: Tensor, values: Tensor) -> Tensor:
    """O_prefix = G̃ P_V (Eq. prompt_output), heads side by side: `(B, N, D)` from values `(L, D)`.

    Example:
        >>> import torch
        >>> from dpw.functional import prefix_output
        >>> prefix_output(torch.tensor([[[[0.5, 0.25]]]]), torch.tensor([[2.0, 4.0], [4.0, 8.0]]))
        tensor([[[2., 4.]]])
    """
    return (g @ _by_head(values, g.shape[1]).transpose(0, 1)).transpose(1, 2).flatten(2)


def adapter_output(
    x: Tensor,
    down: Tensor,
    up: Tensor,
    bias: Tensor,
    scale: float,
    dropout: float = 0.0,
    share: tuple[int, int, int] | None = None,
) -> Tensor:
    """The adapter E(X) = scale · (X D U + b), `(B, N, D)`; down `(D, r)` is frozen, up `(r, D)` learned."""
    hidden = dropped(x @ down, dropout, share)
    # Scaling the small matrices instead of the output saves a pass over (B, N, D).
    return hidden @ (up * scale) + bias * scale


def dropped(hidden: Tensor, dropout: float, share: tuple[int, int, int] | None = None) -> Tensor:
    """Dropout between D and U, drawn for a whole batch where `share` (start, stop, of how many) is here."""
    if not dropout or share is None:
        return F.dropout(hidden, dropout) if dropout else hidden
    start, stop, count = share
    return hidden * F.dropout(hidden.new_ones(count, *hidden.shape[1:]), dropout)[start:stop]


def weighted_residual(
    scores: Tensor,
    values: Tensor,
    adapted: Tensor,
    cutoff: Tensor | float | None = None,
    sample_weight: Tensor | None = None,
    strict: bool = False,
) -> Tensor:
    """O_R = O_prefix + Δ ⊙ E(X) (Eq. final_formula) from scores that are already there.

    `adapted` is E(X) `(B, N, D)`; sample_weight `(B,)` scales all that a sample takes.

    Example:
        >>> import torch
        >>> from dpw.functional import weighted_residual
        >>> scores = torch.zeros(1, 1, 1, 4)  # four times 0.5: prefixes give 1, the adapter the other 1
        >>> weighted_residual(scores, torch.ones(4, 2), adapted=torch.ones(1, 1, 2))
        tensor([[[2., 2.]]])
    """
    g, total = conditional_norm(scores)
    if cutoff is not None:
        g = conditional_filter(g, cutoff, strict)
    delta = residual_weight(total)
    if sample_weight is not None:
        # Equal to weighting the sum, on tensors that are D/L times smaller.
        each = sample_weight.view(-1, 1, 1).expand(len(g), 1, 1)
        g, delta = g * each.unsqueeze(-1), delta * each
    by_head = _by_head(adapted, scores.shape[1])
    prefixed = prefix_output(g, values).view_as(by_head)
    return prefixed.addcmul_(delta.transpose(1, 2).unsqueeze(-1), by_head).flatten(2)


def dpw_residual(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    values: Tensor,
    down: Tensor,
    up: Tensor,
    up_bias: Tensor,
    *,
    scale: float,
    cutoff: Tensor | float | None = None,
    sample_weight: Tensor | None = None,
    strict: bool = False,
) -> Tensor:
    """All of the above from the tokens alone, in one call: what is added to the attention value, `(B, N, D)`.

    The method itself calls the steps one by one, because the [CLS] scores decide the cut-off on the way.

    Example:
        >>> import torch
        >>> from dpw.functional import dpw_residual
        >>> x, weight, bias = torch.ones(1, 1, 2), torch.zeros(1, 2, 4), torch.zeros(1, 1, 4)
        >>> down, up, up_bias = torch.ones(2, 1), torch.ones(1, 2), torch.zeros(2)
        >>> dpw_residual(x, weight, bias, torch.ones(4, 2), down, up, up_bias, scale=0.5)
        tensor([[[2., 2.]]])
    """
    scores = repa_scores(x, weight, bias)
    adapted = adapter_output(x, down, up, up_bias, scale)
    return weighted_residual(scores, values, adapted, cutoff, sample_weight, strict)


def drift_bound(values: Tensor, heads: int, conditional: bool = True) -> Tensor:
    """Largest ‖p_ij‖ a head can receive from its prefixes (App., proposition): c_V, or L·c_V by sigmoid only.

    Gives `(h,)` for values `(L, D)`.

    Example:
        >>> import torch
        >>> from dpw.functional import drift_bound
        >>> values = torch.tensor([[3.0, 4.0], [0.0, 1.0]])
        >>> drift_bound(values, heads=1), drift_bound(values, heads=1, conditional=False)
        (tensor([5.]), tensor([10.]))
    """
    largest: Tensor = torch.linalg.vector_norm(_by_head(values, heads), dim=-1).amax(dim=0)
    return largest if conditional else largest * values.shape[0]


def attention_residual(
    q: Tensor, keys: Tensor, values: Tensor, sample_weight: Tensor | None = None
) -> Tensor:
    """DIKI's residual: a softmax over the prefixes alone, `(B, N, D)`.

    q `(B, h, N, D/h)` is the frozen query; keys and values `(L, D)` are cut into the same heads.

    Example:
        >>> import torch
        >>> from dpw.functional import attention_residual
        >>> values = torch.tensor([[1.0, 0.0], [3.0, 2.0]])
        >>> attention_residual(torch.zeros(1, 1, 1, 2), torch.zeros(2, 2), values)
        tensor([[[2., 1.]]])
    """
    heads, head_width = q.shape[1], q.shape[3]
    keys, values = (_by_head(prefix, heads).transpose(0, 1) for prefix in (keys, values))
    weights = torch.softmax(q @ keys.transpose(-1, -2) / math.sqrt(head_width), dim=-1)
    if sample_weight is not None:
        weights = weights * sample_weight.view(-1, 1, 1, 1)
    return (weights @ values).transpose(1, 2).flatten(2)


def fit_gaussian(features: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """Mean `(D,)` and Cholesky factor `(D, D)` of the unbiased covariance + ridge·I, in float64.

    Example:
        >>> import torch
        >>> from dpw.functional import fit_gaussian
        >>> mean, cholesky = fit_gaussian(torch.tensor([[0.0, 0.0], [2.0, 0.0]]), ridge=1.0)
        >>> mean.tolist(), (cholesky @ cholesky.T).round(decimals=6).tolist()
        ([1.0, 0.0], [[3.0, 0.0], [0.0, 1.0]])
    """
    features = features.double()
    mean = features.mean(dim=0)
    centred = features - mean
    covariance = centred.T @ centred / max(len(features) - 1, 1)
    identity = torch.eye(features.shape[1], dtype=features.dtype, device=features.device)
    return mean, torch.linalg.cholesky(covariance + ridge * identity)


def gaussian_log_likelihood(features: Tensor, mean: Tensor, cholesky: Tensor) -> Tensor:
    """log N(f; μ, Σ) in float64: `(B,)`, or `(B, T)` for stacked mean `(T, D)` and cholesky `(T, D, D)`.

    Example:
        >>> import torch
        >>> from dpw.functional import gaussian_log_likelihood
        >>> gaussian_log_likelihood(torch.zeros(1, 2), torch.zeros(2), torch.eye(2))  # −log 2π
        tensor([-1.8379], dtype=torch.float64)
    """
    if mean.dim() == 1:
        return gaussian_log_likelihood(features, mean[None], cholesky[None])[:, 0]
    mean, cholesky = mean.double(), cholesky.double()
    centred = features.double()[None] - mean[:, None]
    # One triangular solve for all tasks: ‖L⁻¹(f − μ)‖² is the Mahalanobis distance.
    solved = torch.linalg.solve_triangular(cholesky, centred.transpose(1, 2), upper=False)
    log_determinant = 2 * cholesky.diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)
    constant = features.shape[1] * math.log(2 * math.pi)
    distance: Tensor = (solved**2).sum(dim=1)
    return -0.5 * (distance + log_determinant[:, None] + constant).T


def calibrate(log_likelihood: Tensor, dim: int) -> Tensor:
    """Turn a log-likelihood into a weight in (0, 1): σ(ℓ/dim − 1), dim being the embedding width.

    Example:
        >>> import torch
        >>> from dpw.functional import calibrate
        >>> calibrate(torch.tensor([512.0, -512.0]), 512)
        tensor([0.5000, 0.1192])
    """
    return torch.sigmoid(log_likelihood / dim - 1)


class ClassSeparation(NamedTuple):
    """How far apart classes are and how wide each is (App., Adaptive Head Count)."""

    inter_image: Tensor
    inter_text: Tensor
    intra_image: Tensor


def class_separation(features: Tensor, labels: Tensor, text_features: Tensor) -> ClassSeparation:
    """Inter- and intra-class variances from normalised image features `(n, D)` and text features `(C, D)`.

    The within-class pairs are summed as ‖Σ v‖² − Σ ‖v‖², without an n×n matrix; a class with one image has
    no pair and counts as perfectly consistent; classes without images are left out of the image terms.

    Example:
        >>> import torch
        >>> from dpw.functional import class_separation
        >>> found = class_separation(torch.eye(2), torch.tensor([0, 1]), torch.eye(2))
        >>> [float(one) for one in found]
        [1.0, 1.0, 0.0]
    """
    features, text = F.normalize(features.double(), dim=-1), F.normalize(text_features.double(), dim=-1)
    classes, members = torch.unique(labels, return_inverse=True)
    count = torch.bincount(members, minlength=len(classes)).to(features)
    sums = features.new_zeros(len(classes), features.shape[1]).index_add(0, members, features)
    pairs = (count * (count - 1)).clamp(min=1)
    within = torch.where(count > 1, ((sums**2).sum(dim=-1) - count) / pairs, 1.0)
    return ClassSeparation(
        inter_image=1 - _mean_pair(F.normalize(sums, dim=-1)),
        inter_text=1 - _mean_pair(text),
        intra_image=1 - within.mean(),
    )


def easiness(
    inter_image: Tensor, inter_text: Tensor, intra_image: Tensor, classes: int, alpha: float = 10.0
) -> Tensor:
    """Easiness of a task (App., Adaptive Head Count): ½(inter_image + inter_text) / (intra + α/C).

    Example:
        >>> import torch
        >>> from dpw.functional import easiness
        >>> easiness(torch.tensor(1.0), torch.tensor(1.0), torch.tensor(0.0), classes=100)
        tensor(10.)
    """
    return 0.5 * (inter_image + inter_text) / (intra_image + alpha / classes)


def head_count(heads: int, factor: float, truncate: bool = False) -> int:
    """h' = the power of two nearest to h·F (App.), never below one.

    `truncate` cuts h·F to an integer first, as the authors' code does.

    Example:
        >>> from dpw.functional import head_count
        >>> head_count(12, 0.8), head_count(12, 0.1)
        (8, 1)
    """
    scaled = float(int(heads * factor)) if truncate else heads * factor
    return max(1, int(2 ** round(math.log2(scaled)))) if scaled > 0 else 1


class TransferAvgLast(NamedTuple):
    """Transfer, Avg and Last per task and as means, in the unit of the accuracy matrix."""

    transfer: list[float]
    avg: list[float]
    last: list[float]
    mean_transfer: float
    mean_avg: float
    mean_last: float


def transfer_avg_last(matrix: Tensor | Sequence[Sequence[float]]) -> TransferAvgLast:
    """Transfer_j, Avg_j, Last_j (App., Metrics) from `p[i][j]`, accuracy on task j after learning task i.

    Transfer has T − 1 values (tasks 2..T); with a single task its mean is NaN.

    Raises:
        ValueError: the matrix is not square, or a value of it is no finite number.

    Example:
        >>> from dpw.functional import transfer_avg_last
        >>> found = transfer_avg_last([[80.0, 40.0], [70.0, 90.0]])
        >>> found.transfer, found.avg, found.last
        ([40.0], [75.0, 65.0], [70.0, 90.0])
    """
    table = torch.as_tensor(matrix, dtype=torch.float64)
    if table.dim() != 2 or table.shape[0] != table.shape[1] or not len(table):
        raise ValueError(f"an accuracy matrix is square, tasks × tasks; this one is {tuple(table.shape)}")
    if not bool(torch.isfinite(table).all()):
        raise ValueError("an accuracy matrix must be complete: it contains a value that is not a number")
    transfer = [float(table[:j, j].mean()) for j in range(1, len(table))]
    avg, last = table.mean(dim=0).tolist(), table[-1].tolist()
    mean_transfer = sum(transfer) / len(transfer) if transfer else math.nan
    return TransferAvgLast(transfer, avg, last, mean_transfer, sum(avg) / len(avg), sum(last) / len(last))


def _by_head(values: Tensor, heads: int) -> Tensor:
    """Cut the width into heads: `(..., D)` to `(..., h, D/h)`."""
    return values.reshape(*values.shape[:-1], heads, values.shape[-1] // heads)


def _mean_pair(unit: Tensor) -> Tensor:
    """Mean cosine over ordered pairs of different rows of unit vectors; 1 if there is no pair."""
    n = len(unit)
    if n < 2:
        return unit.new_ones(())
    return ((unit.sum(dim=0) ** 2).sum() - (unit**2).sum()) / (n * (n - 1))
